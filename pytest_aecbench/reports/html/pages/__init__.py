"""The pages of the report, one module each: a function from figures to a section."""
