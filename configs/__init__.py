"""What a user writes: languages, source models and recipes in YAML, and the models that read them."""
