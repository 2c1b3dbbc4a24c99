"""The built-in aligner: IBM Model 1 and the diagonal model of Dyer et al. 2013, trained in shards and threads."""
