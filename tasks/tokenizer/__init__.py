"""A new vocabulary for the target language, and how it compares with the old one."""
