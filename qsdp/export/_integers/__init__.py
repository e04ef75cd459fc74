"""The integer form of a model, from which C and integer graphs are written, with proven ranges.

`integer_model` makes it from any estimator or network, step by step:

1. `columns`: entries of a table or series become fixed-point numbers and codes of categories, images are bytes;
2. `inputs`: these columns become integer inputs;
3. `vectors`: the inputs become vectors: one for a row of a table, many for the blocks of an image or series;
4. `network`: neurons or quadratic forms (see `qsdp.export._exact`) of these vectors become integer sums, outputs, and
   scores in a unit (`rows` and `blocks` quantize the second layer);
5. `layout`: the weights as they are stored, and bounds on everything that is computed from them.
"""
