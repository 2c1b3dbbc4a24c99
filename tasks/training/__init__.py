"""Training of a causal language model: packed text in, Hugging Face model folder out; resumable to the bit."""
