"""The bundled sample: a seeded generator of English-Esperanto sentence pairs with gold word alignments."""
