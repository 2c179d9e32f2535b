"""Files of models -> graphs."""
