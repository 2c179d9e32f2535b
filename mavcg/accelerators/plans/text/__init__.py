"""Plans as text: the intermediate representation of e-PlaNNer, chapter 7, with extensions."""
