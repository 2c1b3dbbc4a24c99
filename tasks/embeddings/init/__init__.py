"""The initialisers, one a file; `tasks.embeddings.registry` lists them."""
