"""Stage `evaluation`: how well a model predicts held-out text, and how fast it writes."""
