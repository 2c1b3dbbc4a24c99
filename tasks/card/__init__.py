"""The model card: what the model was made from and how, and what it scores."""
