"""SQL generated from the question tree, through sqlglot's expression objects; no text is ever pasted."""
