"""The aligners, one file each; `registry` names them."""
