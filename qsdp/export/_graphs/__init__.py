"""ONNX graphs, of the integer form and of models of columns in double precision."""
