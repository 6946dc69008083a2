"""The controller: folds notes into marks, keeps them, and answers for them over HTTP."""
