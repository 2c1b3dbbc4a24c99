"""The sections of a configuration, a file each; `configs.schema` has the names of all."""
