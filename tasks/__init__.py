"""What each stage does: plain typed functions, one package a stage, no orchestration inside."""
