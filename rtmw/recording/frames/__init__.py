"""Messages as tables: which columns a message has, and chunks as record batches. Spark reads through it, too."""
