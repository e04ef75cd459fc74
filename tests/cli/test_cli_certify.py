"""`qsdp certify` and `qsdp-check`, the commands of README among them."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from cli_program import figure, messy, number, refused, run

import qsdp
import qsdp_check

README = Path(qsdp_check.__file__).parent / "README.md"


@pytest.fixture(scope="module")
def optimal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with messy.csv and exact models of its label."""
    folder = tmp_path_factory.mktemp("optimal")
    (folder / "messy.csv").write_bytes(messy())
    for loss in ("squared", "hinge", "cross_entropy"):
        result = run(
            "fit", folder / "messy.csv", "--encoding", "standard",
            "--target", "label", "--drop", "price", "--drop", "id", "--loss", loss,
            "--refine", "exact", "--output", folder / f"{loss}.qsdp", "--beta", 1, "--activation", "bilinear",
        )  # fmt: skip
        assert result.exit_code == 0, result.stderr
    return folder


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = qsdp_check.main(list(arguments))
    return code, capsys.readouterr().out.splitlines()[-1]


# -- README ---------------------------------------------------------------------------------------------


def readme_commands() -> list[str]:
    section = README.read_text(encoding="utf-8").split("## On the command line\n", 1)[1].split("\n## ", 1)[0]
    return section.split("```console\n", 1)[1].split("```", 1)[0].splitlines()


def test_the_commands_of_readme(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shell(command: str) -> tuple[int, str]:
        """Run a command in this process; real ones are started in test_cli_process."""
        program, *arguments = shlex.split(command, comments=True)
        if program == "qsdp-check":
            return qsdp_check.main(arguments), capsys.readouterr().out
        *arguments, path = arguments if ">" in arguments else [*arguments, ""]
        result = run(*(word for word in arguments if word != ">"))
        if path:
            (here / path).write_text(result.stdout)
        return result.exit_code, result.stdout

    commands, outputs = readme_commands(), {}
    assert {command.split()[0] for command in commands} == {"qsdp", "qsdp-check"}
    for command in commands:
        code, outputs[command.split("#")[0].strip()] = shell(command)
        assert code == 0, (command, outputs)
    exact = next(text for command, text in outputs.items() if "--refine exact" in command)
    assert "globally optimal to relative gap" in figure(exact, "relative gap")
    (answer,) = [text for command, text in outputs.items() if command.startswith("qsdp-check")]
    assert answer.splitlines()[-1].startswith("yes: ")
    assert "exact" in answer
    assert len((here / "predictions.csv").read_text().splitlines()) == 443
    made = [
        "best.cert",
        "best.qsdp",
        "diabetes.c",
        "diabetes.csv",
        "diabetes.h",
        "diabetes.html",
        "diabetes.qsdp",
        "predictions.csv",
    ]
    assert sorted(path.name for path in here.iterdir()) == made

    content = bytearray((here / "best.cert").read_bytes())
    content[len(content) // 2] ^= 1
    (here / "best.cert").write_bytes(content)
    code, answer = shell("qsdp-check best.cert")
    assert code == 1
    assert answer.startswith("no: ")


# -- bounds ---------------------------------------------------------------------------------------------


def test_certify_a_sampled_model(trained: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run("certify", trained / "label.qsdp", trained / "messy.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    text, model = result.stdout, qsdp.load(trained / "label.qsdp")
    assert figure(text, "saved") == "label.cert"
    assert figure(text, "check") == "qsdp-check label.cert"
    assert figure(text, "bound type").startswith("sdp ")
    assert number(text, "objective") == pytest.approx(model.certificate_.objective, rel=1e-5)
    assert number(text, "lower bound") == pytest.approx(model.certificate_.lower_bound, rel=1e-5)
    assert "globally optimal" not in text
    certificate = qsdp.load_certificate("label.cert")
    assert certificate.bound_type == "sdp"
    assert certificate.objective == pytest.approx(model.certificate_.objective, rel=1e-12)
    assert check(capsys, "label.cert")[0] == 0
    assert "exists" in refused("certify", trained / "label.qsdp", trained / "messy.csv")
    assert run("certify", trained / "label.qsdp", trained / "messy.csv", "--force").exit_code == 0


@pytest.mark.parametrize("loss", ["squared", "hinge", "cross_entropy"])
def test_exact_models_are_proven_optimal(
    optimal: Path, here: Path, capsys: pytest.CaptureFixture[str], loss: str
) -> None:
    """Also where the loss has kinks, at which its gradient proves nothing."""
    path = optimal / f"{loss}.qsdp"
    result = run("certify", path, optimal / "messy.csv", "--bound-type", "exact", "--output", "proof")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "globally optimal to relative gap" in figure(result.stdout, "relative gap")
    assert figure(result.stdout, "bound type").startswith("exact ")
    model = qsdp.load(path)
    certificate = qsdp.load_certificate("proof")
    assert certificate.relative_gap <= 1e-6
    assert certificate.objective == pytest.approx(model.certificate_.objective, rel=1e-12)
    assert certificate.proof is not None
    np.testing.assert_array_equal(certificate.proof.network.U, model.network_.U)
    code, answer = check(capsys, "proof")
    assert (code, answer[:4]) == (0, "yes:")


def test_a_sampled_model_gets_the_bound_of_the_optimum(
    optimal: Path, trained: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, best = (qsdp.load(path).certificate_ for path in (trained / "label.qsdp", optimal / "squared.qsdp"))
    result = run("certify", trained / "label.qsdp", trained / "messy.csv", "--bound-type", "exact")
    assert (result.exit_code, result.stderr) == (0, "")
    certificate = qsdp.load_certificate("label.cert")
    assert certificate.bound_type == "exact"
    assert model.lower_bound < certificate.lower_bound <= best.objective * (1.0 + 1e-9)
    assert certificate.lower_bound == pytest.approx(best.objective, rel=1e-5)
    assert "globally optimal" not in result.stdout
    assert check(capsys, "label.cert")[0] == 0


def test_less_than_was_asked_for(optimal: Path, trained: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sampled, data = [trained / "label.qsdp", trained / "messy.csv"], optimal / "messy.csv"
    stored = qsdp.load(optimal / "squared.qsdp").certificate_
    bound = f"the bound is below the one stored in the model, {stored.lower_bound:.6g}"
    no_time = ["--bound-type", "exact", "--time-limit", "1e-9", "--force"]
    for arguments, warning in (
        ([*sampled, *no_time], "exact pricing proved no bound in time; a larger --time-limit may help"),
        ([optimal / "squared.qsdp", data, *no_time], f"{bound}; a larger --time-limit may raise it"),
        ([optimal / "squared.qsdp", data, "--force"], f"{bound}; --bound-type exact may raise it"),
    ):
        result = run("certify", *arguments, "--output", "some.cert")
        assert (result.exit_code, result.stderr) == (0, f"Warning: {warning}\n")
        assert figure(result.stdout, "bound type").startswith("sdp ")
        assert "globally optimal" not in result.stdout
        assert check(capsys, "some.cert")[0] == 0


def test_without_data(trained: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(
        "certify", trained / "price.qsdp", trained / "messy.csv", "--no-data", "--output", "my price.cert"
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    assert figure(result.stdout, "saved") == "my price.cert, my price.cert.npz"
    assert shlex.split(figure(result.stdout, "check")) == [
        "qsdp-check", "my price.cert", "--data", "my price.cert.npz",
    ]  # fmt: skip
    assert check(capsys, "my price.cert", "--data", "my price.cert.npz")[0] == 0
    assert "only a digest" in check(capsys, "my price.cert")[1]
    assert qsdp.load_certificate("my price.cert").proof is None
    (here / "my price.cert").unlink()
    again = ["certify", trained / "price.qsdp", trained / "messy.csv", "--no-data", "--output", "my price.cert"]
    assert "'my price.cert.npz' exists" in refused(*again)
    assert run(*again, "--force").exit_code == 0


# -- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bound-type", "exakt"], "--bound-type must be one of 'exact', 'sdp'; got 'exakt'; did you mean 'exact'?"),
        (["--time-limit", "0"], "--time-limit must be a finite number > 0; got 0"),
        (["--time-limit", "nan"], "--time-limit must be a finite number > 0"),
        (["--time-limit", "soon"], "--time-limit"),
        (["--output", "."], "is a folder"),
        (["--output", "no/such/folder.cert"], "does not exist"),
    ],
)
def test_bad_options_are_refused_before_a_file_is_read(here: Path, options: list[str], message: str) -> None:
    # Neither of the files is there.
    assert message in refused("certify", "m.qsdp", "data.csv", *options)
    assert list(here.iterdir()) == []


def test_files_that_are_refused(trained: Path, here: Path) -> None:
    model, data = trained / "label.qsdp", trained / "messy.csv"
    (here / "other.csv").write_bytes(messy(seed=1))
    (here / "sparse.csv").write_text("a\n1\n")
    (here / "bad.qsdp").write_bytes(model.read_bytes()[:200])
    before = sorted(path.name for path in here.iterdir())
    for options in ([], ["--no-data"], ["--bound-type", "exact"]):
        assert "not the file this model was trained on" in refused("certify", model, "other.csv", *options)
        assert "has no column 'label'" in refused("certify", model, "sparse.csv", *options)
        assert "'none.csv': No such file" in refused("certify", model, "none.csv", *options)
        assert "'none.qsdp': No such file" in refused("certify", "none.qsdp", data, *options)
        assert "not a qsdp file" in refused("certify", data, data, *options)
        assert "'bad.qsdp'" in refused("certify", "bad.qsdp", data, *options)
    assert "is the input" in refused("certify", "bad.qsdp", data, "--force", "--output", "bad.qsdp")
    assert "TRAIN.csv" in refused("certify", model)
    assert sorted(path.name for path in here.iterdir()) == before
