"""Word alignment of parallel text, and counts of word and token pairs."""
