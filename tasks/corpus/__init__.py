"""Reading, cleaning, deduplicating, sampling and splitting text: the stages `corpus` and `bitext`."""
