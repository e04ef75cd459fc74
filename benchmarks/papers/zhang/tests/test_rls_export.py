"""Export of convolutional, recurrent and LSTM networks: the affine functions and their inputs are the network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import qsdp
from benchmarks.methods.activations import Tanh
from benchmarks.papers.zhang import RLS, export_modules, squared_loss
from qsdp.baselines import relu


class Sequences(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.recurrent, self.output = kind(3, 5, batch_first=True, **options), nn.Linear(5, 2)

    def forward(self, X):
        return self.output(self.recurrent(X)[0][:, -1])


def trained(model, X):
    """Return the model after a step of RLS."""
    optimizer = RLS(model)
    optimizer.zero_grad()
    squared_loss(model(X), torch.ones(len(X), 2, dtype=X.dtype)).backward()
    optimizer.step()
    return model


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1, "dilation": 2}, {"padding": "same"}])
def test_a_convolution_is_one_function_of_all_receptive_fields(options):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, **options), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    X = torch.randn(7, 2, 8, 8, dtype=torch.float64)
    trained(model.double(), X)
    first, second = export_modules(model, X)
    values = model[0](X).detach().numpy()
    found = first.layer.predict(first.inputs).reshape(7, -1, 4).transpose(0, 2, 1)
    np.testing.assert_allclose(found, values.reshape(7, 4, -1), atol=1e-12)
    np.testing.assert_allclose(second.layer.predict(second.inputs), model(X).detach().numpy(), atol=1e-12)
    assert (first.name, second.name) == ("0", "4")
    assert model.training


@pytest.mark.parametrize(("nonlinearity", "function"), [("tanh", Tanh()), ("relu", relu)])
def test_a_recurrent_layer_is_one_function_of_inputs_and_earlier_outputs(nonlinearity, function):
    torch.manual_seed(0)
    X = torch.randn(6, 4, 3, dtype=torch.float64)
    model = trained(Sequences(nn.RNN, nonlinearity=nonlinearity).double(), X)
    first, second = export_modules(model, X)
    outputs = model.recurrent(X)[0].detach().numpy()
    assert first.layer.activation == function
    assert first.inputs.shape == (24, 8)
    np.testing.assert_allclose(
        first.layer.predict(first.inputs).reshape(4, 6, 5), outputs.transpose(1, 0, 2), atol=1e-12
    )
    np.testing.assert_allclose(second.layer.predict(second.inputs), model(X).detach().numpy(), atol=1e-12)


def test_an_lstm_is_the_function_of_its_gates():
    torch.manual_seed(0)
    X = torch.randn(6, 4, 3, dtype=torch.float64)
    model = trained(Sequences(nn.LSTM).double(), X)
    first, _ = export_modules(model, X)
    gates = torch.from_numpy(first.layer.predict(first.inputs)).reshape(4, 6, 20)
    cell = torch.zeros(6, 5, dtype=torch.float64)
    for step in gates:
        entered, forgotten, candidate, left = step.chunk(4, dim=1)
        cell = forgotten.sigmoid() * cell + entered.sigmoid() * candidate.tanh()
        hidden = left.sigmoid() * cell.tanh()
    np.testing.assert_allclose(hidden, model.recurrent(X)[0][:, -1].detach(), atol=1e-12)


def test_what_is_exported_is_quantized_with_a_certificate():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
    (convolution, _) = export_modules(model, torch.randn(30, 1, 4, 4))
    match = qsdp.distill(convolution.layer.form, convolution.inputs, 2000, tol=1e-3, random_state=0)
    target = match.problem.y
    assert np.linalg.norm(match.predict(convolution.inputs) - target) < 0.3 * np.linalg.norm(target)
    assert match.certificate.lower_bound <= match.certificate.objective
