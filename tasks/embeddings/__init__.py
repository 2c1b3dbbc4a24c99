"""New embeddings as weighted means of old ones: token mappings, how they are made, and the initial model."""
