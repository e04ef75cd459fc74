"""Verilog of models whose inputs are bits."""
