# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # qsdp against backprop
#
# Quantized networks are usually trained by gradient descent on real weights, rounding them at the end or training
# "straight through" the rounding. This notebook compares them with qsdp on one scale. All networks minimise the same
# objective, so one lower bound, the black line, holds for all quantized ones.
#
# *Needs:* `pip install -e ".[notebooks]"`, which includes PyTorch for the networks trained by gradients; no
# download and no GPU.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import SelectionSlider, ToggleButtons, interact
from sklearn.preprocessing import StandardScaler

import qsdp
from qsdp.baselines import BackpropClassifier, StraightThroughClassifier

plt.rcParams["figure.figsize"] = (6, 3.8)
BETA, M = 10, 100

data = qsdp.datasets.load_bundled("breast-cancer-wisconsin")


def prepared(seed):
    X_train, X_test, y_train, y_test = data.split(seed)
    scaler = StandardScaler().fit(X_train)
    return (
        scaler.transform(X_train),
        scaler.transform(X_test),
        y_train,
        y_test,
    )


def solved(X, y, **options):
    return qsdp.solve_and_sample(
        np.column_stack([X, np.ones(len(X))]),
        y,
        n_neurons=M,
        beta=BETA,
        **options,
    )


def clocked(model):
    """Fit, and return the CPU seconds after every epoch."""
    clock, start = [], time.process_time()
    model.set_params(
        callback=lambda history: clock.append(
            time.process_time() - start
        )
    ).fit(X_train, y_train)
    return clock


X_train, X_test, y_train, y_test = prepared(0)
BackpropClassifier(2, n_epochs=1).fit(
    X_train, y_train
)  # loads PyTorch, which is not to count

backprop = BackpropClassifier(M, beta=BETA, random_state=0)
through = StraightThroughClassifier(M, beta=BETA, random_state=0)
backprop_clock, through_clock = clocked(backprop), clocked(through)

start = time.process_time()
result = solved(X_train, y_train, refine="polish")
polished_at = time.process_time() - start
refitted = result.resample(2500, random_state=0, refine="refit")
refitted_at = time.process_time() - start

problem, relaxation = result.problem, result.relaxation
rounded = backprop.quantized()

figure, ax = plt.subplots(figsize=(6.6, 4.2), layout="constrained")
ax.plot(
    backprop_clock,
    backprop.history_.loss,
    color="#666666",
    label="backprop, 64-bit weights",
)
ax.plot(
    through_clock,
    through.history_.loss,
    color="#D55E00",
    label="straight-through",
)
ax.plot(
    backprop_clock[-1],
    problem.objective(rounded),
    "X",
    color="#666666",
    markersize=9,
    label="backprop, rounded to signs",
)
ax.plot(
    polished_at,
    result.certificate.objective,
    "*",
    color="#0072B2",
    markersize=14,
    label="qsdp, polished",
)
ax.plot(
    refitted_at,
    refitted.certificate.objective,
    "P",
    color="#009E73",
    markersize=9,
    label="qsdp, refitted",
)
ax.axhline(
    relaxation.lower_bound,
    color="black",
    label="lower bound for all networks of signs",
)
ax.set(
    xscale="log", yscale="log", xlabel="CPU seconds", ylabel="objective"
)
figure.legend(
    loc="outside upper center", ncols=2, frameon=False, fontsize=9
)
ax.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## One split
#
# The picture is of breast cancer data, 100 neurons $\alpha_j (x^T u_j)(x^T v_j)$, squared loss and β = 10. Backprop
# trains real weights by stochastic gradient descent with the paper's regulariser and rounds them to signs afterwards.
# The straight-through estimator rounds in every forward pass and ignores the rounding in the backward pass. All methods
# get the same problem, standardised columns and a column of ones. So qsdp is called as a function: the estimator would
# encode the data, centre the target and choose β itself.
#
# The curves are training histories, with one point per epoch. The black line bounds only networks of signs. Real
# weights may go below it; rounding takes them far above.

# %% [markdown]
# ## Any network can be certified
#
# The bound does not depend on where a network comes from. The refinements of qsdp also work on other networks: a better
# second layer for the rounded network, better bits for the straight-through one.


# %%
def accuracy(network, X, y):
    outputs = network.predict(np.column_stack([X, np.ones(len(X))]))
    return np.mean(np.where(outputs > 0, 1, -1) == y)


networks = {
    "backprop, rounded": rounded,
    "  the same, refitted": qsdp.refit(rounded, problem),
    "straight-through": through.network_,
    "  the same, polished": qsdp.polish(
        through.network_, problem, random_state=0
    ),
    "qsdp, sampled": result.resample(
        M, random_state=0, refine="none"
    ).network,
    "qsdp, polished": result.network,
    "qsdp, refitted": refitted.network,
}
print(
    f"{'':22}  objective  relative gap   neurons     bits  test "
    "accuracy"
)
for name, network in networks.items():
    c = qsdp.certify(network, problem, relaxation)
    row = f"{c.objective:9.1f}  {c.relative_gap:12.1%}  "
    row += f"{network.n_neurons:8d}  {network.n_bits:7,}"
    print(
        f"{name:22}  {row}  {accuracy(network, X_test, y_test):13.1%}"
    )
row = (
    f"{backprop.history_.loss[-1]:9.1f}{'':14}{M:10d}  {64 * M * 63:7,}"
)
print(
    f"{'backprop, 64-bit':22}  {row}  "
    f"{backprop.score(X_test, y_test):13.1%}"
)

# %% [markdown]
# Rounding afterwards loses most of what was learned, and so does only sampling a small network. Straight-through
# training does well. It cannot tell whether it could have done better; the gap can. A better objective is not the same
# as a better test accuracy.
#
# ## Five splits
#
# One split proves nothing about accuracy. Mean and standard deviation over five splits:

# %%
scores = {}
for seed in range(5):
    X_a, X_b, y_a, y_b = prepared(seed)
    settings = {"beta": BETA, "random_state": seed}
    real = BackpropClassifier(M, n_epochs=30, **settings).fit(X_a, y_a)
    trained = StraightThroughClassifier(M, n_epochs=30, **settings).fit(
        X_a, y_a
    )
    ours = solved(X_a, y_a, random_state=seed)
    compared = {
        "backprop, rounded": real.quantized(),
        "straight-through": trained.network_,
        "qsdp, sampled": ours.network,
        "qsdp, polished": ours.resample(
            M, seed, refine="polish"
        ).network,
        "qsdp, refitted": ours.resample(
            1000, seed, refine="refit"
        ).network,
    }
    scores.setdefault("backprop, 64-bit", []).append(
        real.score(X_b, y_b)
    )
    for name, network in compared.items():
        scores.setdefault(name, []).append(accuracy(network, X_b, y_b))
for name in sorted(scores):
    print(
        f"{name:18} {np.mean(scores[name]):6.1%} ± "
        f"{np.std(scores[name], ddof=1):.1%}"
    )

# %% [markdown]
# Real weights are a little better than signs. Among the networks of signs, the straight-through, polished and refitted
# ones are within one standard deviation of each other. qsdp adds the bound, and other sizes for free.
#
# ## One solve against one training run for each width
#
# For another width, the other methods train again; qsdp draws again. The plot compares a network of your choice with
# the trained ones.


# %%
def draw(m=300, refine="none"):
    drawn = result.resample(m, random_state=0, refine=refine)
    points = [
        ("backprop, rounded", rounded, "X", "#666666"),
        ("straight-through", through.network_, "s", "#D55E00"),
        (f"qsdp, m = {m}, {refine}", drawn.network, "*", "#0072B2"),
    ]
    _, ax = plt.subplots(layout="constrained")
    for name, network, marker, colour in points:
        ax.plot(
            network.n_bits,
            problem.objective(network),
            marker,
            color=colour,
            markersize=11,
            label=name,
        )
    ax.axhline(
        relaxation.lower_bound, color="black", label="lower bound"
    )
    ax.set(
        xscale="log",
        yscale="log",
        xlim=(1e3, 3e6),
        ylim=(50, 2e4),
        xlabel="bits",
        ylabel="objective",
    )
    ax.legend(frameon=False, fontsize=9)
    ax.grid(alpha=0.3)
    plt.show()


draw()

# %%
_ = interact(
    draw,
    m=SelectionSlider(
        options=[30, 100, 300, 1000, 3000, 10_000, 30_000],
        value=300,
        continuous_update=False,
    ),
    refine=ToggleButtons(options=["none", "polish", "refit"]),
)

# %% [markdown]
# ## Change it
#
# Give the others a better chance: more epochs, another learning rate, more neurons. How close to the bound does
# straight-through training get?

# %%
n_neurons = 200
n_epochs = 60
learning_rate = 0.1

mine = StraightThroughClassifier(
    n_neurons,
    beta=BETA,
    n_epochs=n_epochs,
    learning_rate=learning_rate,
    random_state=0,
)
mine.fit(X_train, y_train)
print(
    f"test accuracy {mine.score(X_test, y_test):.1%};",
    qsdp.certify(mine.network_, problem, relaxation),
)
