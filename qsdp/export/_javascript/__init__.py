"""JavaScript modules, in double precision: data of a model, and the code that evaluates it."""
