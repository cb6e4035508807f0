"""Splits by patient: who is on which side, and what is refused."""

import pytest
from pydantic import ValidationError

from genar.data.splits import Split, SplitConfig, plan
from genar.errors import ConfigError

COHORT = {f"{patient}{i}": patient for patient in "ABCDEF" for i in (1, 2)}  # six patients of two sections


def runs(patients: dict[str, str] | None = None, seed: int = 0, **settings: object) -> dict[str, Split]:
    patients = patients or COHORT
    prints = {s: f"hash of {s}" for s in patients}
    return plan(SplitConfig.model_validate(settings), patients, prints, seed)


def sides(split: Split) -> list[set[str]]:
    return [set(split.train), set(split.validation), set(split.test)]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"method": "leave_one_patient_out"}, [*"ABCDEF", "final"]),
        ({"method": "kfold", "folds": 3}, ["fold-1", "fold-2", "fold-3", "final"]),
        ({"method": "holdout"}, ["final"]),
        ({"method": "none"}, ["final"]),
    ],
    ids=lambda v: v["method"] if isinstance(v, dict) else None,
)
def test_no_patient_is_on_two_sides_and_no_section_is_lost(settings: dict[str, object], names: list[str]) -> None:
    found = runs(**settings)
    assert list(found) == names
    for split in found.values():
        assert split.shared == ()
        train, validation, test = sides(split)
        assert train | validation | test == set(COHORT)
        assert len(train) + len(validation) + len(test) == len(COHORT)
        assert train
        assert validation
        assert split.patients == COHORT
    judged = [s for name in names for s in found[name].test]
    assert sorted(judged) == ([] if settings["method"] == "none" else sorted(set(judged)))
    if settings["method"] in ("leave_one_patient_out", "kfold"):
        assert sorted(judged) == sorted(COHORT)
        assert not found["final"].test


def test_each_fold_of_leave_one_patient_out_is_a_patient() -> None:
    assert {name: sorted(s.test) for name, s in runs().items()}["C"] == ["C1", "C2"]


def test_the_test_set_of_holdout_may_be_named_by_patient_or_section() -> None:
    assert sorted(runs(method="holdout", test=["B", "E"])["final"].test) == ["B1", "B2", "E1", "E2"]
    named = {"method": "holdout", "test": ["B1"], "shared_patients": ["B"]}
    assert sorted(runs(**named)["final"].test) == ["B1"]
    with pytest.raises(ConfigError, match="the data have no patient or section X; choose among A, B"):
        runs(method="holdout", test=["X"])
    with pytest.raises(ValidationError, match="under holdout alone"):
        runs(method="kfold", test=["B"])


def test_a_patient_on_two_sides_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"patient A would be on two sides in A1.*split\.shared_patients"):
        runs(method="leave_one_section_out")
    with pytest.raises(ConfigError, match="patient B would be on two sides"):
        runs(method="holdout", test=["B1"])
    found = runs(method="leave_one_section_out", shared_patients=list("ABCDEF"))
    assert list(found) == [*COHORT, "final"]
    assert found["A1"].shared == ("A",)  # the test section's patient; validation is of whole patients


def test_a_shared_patient_must_be_there() -> None:
    with pytest.raises(ConfigError, match="split.shared_patients: there is no patient Z; choose among A, B"):
        runs(shared_patients=["Z"])


def test_validation_by_section_shares_its_patient() -> None:
    one = {f"C{i}": "C" for i in range(2, 7)}
    settings = {"method": "leave_one_section_out", "validation": "section"}
    found = runs(one, **settings, shared_patients=["C"])
    assert [len(s.validation) for s in found.values()] == [1] * 6
    with pytest.raises(ConfigError, match="patient C would be on two sides"):
        runs(one, **settings)
    assert found["C2"].merged().train.keys() == {"C3", "C4", "C5", "C6"}
    assert not found["C2"].merged().validation


@pytest.mark.parametrize(
    ("patients", "settings", "said"),
    [
        ({"a": "A"}, {"method": "leave_one_section_out"}, "needs 2 sections, and there is 1"),
        ({"a": "A", "b": "A"}, {}, "needs 2 patients, and there is 1"),
        (COHORT, {"method": "kfold", "folds": 7}, "7 folds needs 7 patients, and there are 6"),
        ({"a": "A", "b": "B"}, {}, "a training set has only 1 patient.*choose trainer.max_epochs"),
        ({"a": "A", "b": "B", "c": "B"}, {}, "split.validation: section \\(optimistic"),
    ],
)
def test_too_little_data(patients: dict[str, str], settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        runs(patients, **settings)


def test_without_validation_two_patients_are_enough() -> None:
    found = runs({"a": "A", "b": "B"}, validation="none")
    assert [list(s.train) for s in found.values()] == [["b"], ["a"], ["a", "b"]]


def test_no_one_is_called_as_the_final_run_is() -> None:
    for patients in ({"final": "A", "b": "B", "c": "C"}, {"a": "final", "b": "B", "c": "C"}):
        with pytest.raises(ConfigError, match="final: a section or patient is called so"):
            runs(patients)


def test_a_model_does_not_tell_the_patients_names() -> None:
    split = runs()["A"]
    told = split.for_model()
    assert told.sha256 == split.sha256
    assert not set(told.patients.values()) & set(split.patients.values())
    assert (told.patients["A1"] == told.patients["A2"]) != (told.patients["A1"] == told.patients["B1"])


def test_the_hash_tells_splits_and_data_apart() -> None:
    hashes = {s.sha256 for s in runs().values()}
    assert len(hashes) == 7
    assert hashes == {s.sha256 for s in runs().values()}
    other = plan(SplitConfig(), COHORT, {s: f"other {s}" for s in COHORT}, 0)
    assert not hashes & {s.sha256 for s in other.values()}


def test_the_seed_decides_who_is_drawn() -> None:
    drawn = {tuple(runs(method="holdout", seed=seed)["final"].test) for seed in range(8)}
    assert len(drawn) > 2
