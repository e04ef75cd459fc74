"""Plot of an estimator's predictions over two columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, check_integer, check_matrix, check_real
from qsdp.encoding.columns import as_numbers, as_symbols, is_symbolic
from qsdp.encoding.frames import is_frame
from qsdp.exceptions import InvalidInputError
from qsdp.plotting._canvas import COLOURS, MARKERS, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DecisionRegionDisplay"]


class DecisionRegionDisplay(Display):
    """Decision regions of a classifier over two columns, or the surface of a regressor.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (G, G)
        Mesh over the two columns.
    response : ndarray of shape (G, G)
        Indices of the predicted classes, or predictions of a regressor.
    classes : sequence, optional
        Labels of the classes; None for a regressor.
    points : ndarray of shape (n, 2), optional
        Samples to draw over the regions.
    targets : ndarray of shape (n,), optional
        Class indices of the points, or their targets for a regressor.
    names : (str, str), default=("column 0", "column 1")
        Labels of the axes.

    Attributes
    ----------
    surface_ : QuadMesh
    boundaries_ : list of QuadContourSet
        Boundaries of the regions of all classes but the last.
    points_ : list of PathCollection
        One collection per class that occurs among the points.
    ax_ : Axes
    figure_ : Figure

    Notes
    -----
    Unlike scikit-learn's ``DecisionBoundaryDisplay``, it draws the samples and a legend, accepts data with more than
    two columns, and uses the same colours with any version of scikit-learn.

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import DecisionRegionDisplay
        >>> X, y = qsdp.datasets.load_bundled("iris")
        >>> X = X[:, 2:]
        >>> model = qsdp.QuantizedNetworkClassifier(beta="2%", random_state=0)
        >>> display = DecisionRegionDisplay.from_estimator(
        ...     model.fit(X, y), X, y, resolution=100
        ... )
        >>> display.response.shape, sorted(set(display.response.ravel().tolist()))
        ((100, 100), [0, 1, 2])
    """

    def __init__(
        self,
        *,
        xx0: FloatArray,
        xx1: FloatArray,
        response: npt.NDArray[Any],
        classes: Sequence[Any] | None = None,
        points: FloatArray | None = None,
        targets: npt.NDArray[Any] | None = None,
        names: tuple[str, str] = ("column 0", "column 1"),
    ) -> None:
        self.xx0, self.xx1, self.response = xx0, xx1, response
        self.classes, self.points, self.targets, self.names = classes, points, targets, names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: tuple[int, int] = (0, 1),
        resolution: int = 200,
        margin: float = 0.1,
        ax: Axes | None = None,
        **mesh_kw: Any,
    ) -> DecisionRegionDisplay:
        """Predict on a mesh over two columns of data and plot the predictions.

        Parameters
        ----------
        estimator : classifier or regressor
            Fitted scikit-learn estimator or pipeline with one output.
        X : array-like or data frame of pandas or polars, of shape (n, d), d >= 2
            Data that the mesh covers. Columns other than the two plotted are fixed at their medians, categorical ones
            at their most frequent category. Entries may be missing if the estimator allows it; a sample without a value
            in a plotted column is not drawn.
        y : array-like of shape (n,), optional
            Targets. The samples are drawn only if targets are given.
        features : (int, int), default=(0, 1)
            The two columns to plot.
        resolution : int, default=200
            Number of mesh points along each column.
        margin : float, default=0.1
            Extent of the mesh beyond the data, as a fraction of the range of the data.
        ax : Axes, optional
        **mesh_kw
            Passed to ``Axes.pcolormesh``.
        """
        cls.check_axes(ax)
        check_is_fitted(estimator)
        columns, names = _columns(X), _names(X)
        n_points, share = check_integer("resolution", resolution, minimum=2), check_real("margin", margin)
        first, second = _check_features(features, len(columns))
        plane = np.column_stack([as_numbers(columns[k], names[k]) for k in (first, second)])
        for k, name in ((0, names[first]), (1, names[second])):
            if np.isnan(plane[:, k]).all():
                raise InvalidInputError(
                    f"column {name!r} of X must have a number to be plotted; all entries are missing"
                )
        low, high = np.nanmin(plane, axis=0), np.nanmax(plane, axis=0)
        beyond = share * np.where(high > low, high - low, 1.0)
        xx0, xx1 = np.meshgrid(*(np.linspace(low[k] - beyond[k], high[k] + beyond[k], n_points) for k in (0, 1)))
        mesh = [_held(column, name, xx0.size) for column, name in zip(columns, names, strict=True)]
        mesh[first], mesh[second] = xx0.ravel(), xx1.ravel()
        predicted = np.asarray(estimator.predict(_like(X, mesh)))
        if predicted.shape != (xx0.size,):
            raise InvalidInputError(f"estimator must have one output; got predictions of shape {predicted.shape}")
        classes = estimator.classes_ if is_classifier(estimator) else None
        targets = None if y is None else np.asarray(y)
        if targets is not None and targets.shape != (len(plane),):
            raise InvalidInputError(f"y must have shape {(len(plane),)}, one for each row of X; got {targets.shape}")
        if classes is not None:
            predicted = np.searchsorted(classes, predicted)
            if targets is not None:
                unknown = np.setdiff1d(targets, classes)
                if unknown.size:
                    raise InvalidInputError(f"y must hold classes of the estimator; got {unknown.tolist()[0]!r}")
                targets = np.searchsorted(classes, targets)
        display = cls(
            xx0=xx0,
            xx1=xx1,
            response=predicted.reshape(xx0.shape),
            classes=None if classes is None else list(classes),
            points=None if targets is None else plane,
            targets=targets,
            names=(names[first], names[second]),
        )
        return display.plot(ax, **mesh_kw)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        self.boundaries_: list[Any] = []
        self.points_: list[Any] = []
        style = {"shading": "nearest", "rasterized": True, "zorder": 0, **style}
        if self.classes is None:
            self._draw_surface(ax, style)
        else:
            self._draw_regions(ax, self.classes, style)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.grid(False)

    def _draw_regions(self, ax: Axes, classes: Sequence[Any], style: dict[str, Any]) -> None:
        from matplotlib.colors import ListedColormap

        colours = _colours(len(classes))
        own = {"cmap": ListedColormap(colours), "vmin": -0.5, "vmax": len(classes) - 0.5, "alpha": 0.3}
        self.surface_ = ax.pcolormesh(self.xx0, self.xx1, self.response, **{**own, **style})
        for k in range(len(classes) - 1):
            # One class at a time, since a contour of class indices has several lines between classes 0 and 2.
            region = (self.response == k).astype(np.float64)
            if region.min() < region.max():
                line: dict[str, Any] = {"levels": [0.5], "colors": "black", "linewidths": 0.8, "zorder": 1}
                self.boundaries_.append(ax.contour(self.xx0, self.xx1, region, **line))
        if self.targets is None:
            return
        for k, name in enumerate(classes):
            if np.any(chosen := self.targets == k):
                marker = MARKERS[k % len(MARKERS)]
                self._draw_points(ax, chosen, color=colours[k], marker=marker, linewidths=0.5, label=str(name))
        # The legend is above the axes, where it hides no points.
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, handletextpad=0.1)

    def _draw_surface(self, ax: Axes, style: dict[str, Any]) -> None:
        style = {"cmap": "cividis", **style}
        if self.targets is not None:
            style.setdefault("vmin", min(self.response.min(), self.targets.min()))
            style.setdefault("vmax", max(self.response.max(), self.targets.max()))
        mesh = self.surface_ = ax.pcolormesh(self.xx0, self.xx1, self.response, **style)
        if self.targets is not None:
            self._draw_points(ax, slice(None), c=self.targets, cmap=mesh.cmap, norm=mesh.norm, linewidths=0.7)
        self.figure_.colorbar(mesh, ax=ax, label="prediction")

    def _draw_points(self, ax: Axes, chosen: Any, **style: Any) -> None:
        """Draw the selected points, if there are any."""
        if self.points is not None:
            x, y = self.points[chosen].T
            self.points_.append(ax.scatter(x, y, s=22, edgecolors="white", zorder=2, **style))


def _colours(n_classes: int) -> list[Any]:
    """Return one colour per class."""
    if n_classes <= len(COLOURS):
        return list(COLOURS[:n_classes])
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0.0, 1.0, n_classes)))


def _check_features(features: Any, n_columns: int) -> tuple[int, int]:
    pair = list(features) if np.iterable(features) and not isinstance(features, str) else []
    if len(pair) != 2:
        raise InvalidInputError(f"features must be two different columns of X; got {features!r}")
    first, second = (check_integer("features", k, minimum=0, maximum=n_columns - 1) for k in pair)
    if first == second:
        raise InvalidInputError(f"features must be two different columns of X; got {features!r}")
    return first, second


def _columns(X: Any) -> list[Any]:
    """Return the columns of an array or a data frame, with entries of any type."""
    if is_frame(X):
        return [X.iloc[:, j] if hasattr(X, "iloc") else X.to_series(j) for j in range(X.shape[1])]
    entries = np.asarray(X)
    return list((entries if entries.dtype.kind == "O" and entries.ndim == 2 else check_matrix("X", X, missing=True)).T)


def _held(column: Any, name: str, count: int) -> Any:
    """Build a constant column: the median of numbers, or the most frequent symbol, repeated `count` times."""
    if not is_symbolic(column):
        numbers = as_numbers(column, name)
        known = numbers[~np.isnan(numbers)]
        return np.full(count, np.median(known) if known.size else np.nan)
    symbols = as_symbols(column, name).tolist()
    rows = np.full(count, symbols.index(Counter(symbols).most_common(1)[0][0]))
    # Frames keep the type of the column.
    return column.iloc[rows].reset_index(drop=True) if hasattr(column, "iloc") else column[rows]


def _like(X: Any, mesh: list[Any]) -> Any:
    """Combine mesh columns in the type of X, since estimators may require a data frame with names and types."""
    if not is_frame(X):
        return np.column_stack(mesh)
    rows = np.zeros(len(mesh[0]), dtype=np.intp)
    frame = X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows]
    for position, column in enumerate(mesh):
        if hasattr(X, "iloc"):
            frame.isetitem(position, column)
        else:
            series = X.to_series(position)
            frame.replace_column(position, type(series)(series.name, column))
    return frame


def _names(X: Any) -> list[str]:
    if is_frame(X):
        return [str(name) for name in X.columns]
    return [f"column {j}" for j in range(np.shape(X)[-1] if np.ndim(X) else 0)]
