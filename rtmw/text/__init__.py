"""Text between people and programs: sizes and times, names and patterns, addresses, JSON, and text of others."""
