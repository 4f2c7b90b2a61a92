"""Tables of months of recordings: a folder with a table for each topic. Each message is added exactly once."""
