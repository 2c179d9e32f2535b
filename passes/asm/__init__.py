"""Assembly text -> assembly text."""
