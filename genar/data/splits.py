"""Who is trained on, who stops the training, and who judges it: splits of sections by patient."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from sklearn.model_selection import GroupKFold

from genar.errors import ConfigError

FINAL = "final"  # the run that makes the model
Method = Literal["none", "holdout", "kfold", "leave_one_patient_out", "leave_one_section_out"]
Share = Annotated[float, Field(gt=0, lt=1)]


class SplitConfig(BaseModel):
    """Which sections are held out, to judge the model and to stop its training.

    Parameters
    ----------
    method
        ``"holdout"``: one set of patients judges the one model. ``"kfold"``, ``"leave_one_patient_out"``,
        ``"leave_one_section_out"``: models are trained without each fold in turn and judged on it, then the final one
        on all. ``"none"``: the model is not judged.
    test
        Of ``holdout``: names of the patients or sections that judge; by default ``test_share`` of the patients.
    test_share
        Of ``holdout``: share of the patients that judge.
    folds
        Of ``kfold``: number of folds.
    validation
        What is held out of each training set to stop its training: whole ``"patient"``s, single ``"section"``s, or
        ``"none"``.
    validation_share
        Share of them, at least one.
    shared_patients
        Names of patients whose sections may lie on two sides, which makes the figures optimistic. Any other patient
        on two sides is an error.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    method: Method = "leave_one_patient_out"
    test: tuple[str, ...] = ()
    test_share: Share = 0.2
    folds: int = Field(5, ge=2)
    validation: Literal["patient", "section", "none"] = "patient"
    validation_share: Share = 0.15
    shared_patients: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _test_is_of_holdout(self) -> "SplitConfig":
        if self.test and self.method != "holdout":
            msg = "split.test names who judges under holdout alone; set split.method: holdout, or leave it out"
            raise ValueError(msg)
        return self


class Split(BaseModel):
    """The sections of one training run: names, with the hash of what each holds.

    Parameters
    ----------
    train, validation, test
        The sections of each side: name and fingerprint.
    patients
        Patient of each section.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    train: dict[str, str]
    validation: dict[str, str] = {}
    test: dict[str, str] = {}
    patients: dict[str, str]

    def for_model(self) -> "Split":
        """Return the split with the patients' names hashed, since models are passed on."""
        hashed = {section: patient_hash(name) for section, name in self.patients.items()}
        return self.model_copy(update={"patients": hashed})

    @property
    def sha256(self) -> str:
        """Hash of which sections, by name and content, are on which side."""
        sides = self.model_dump(exclude={"patients"})
        return hashlib.sha256(json.dumps(sides, sort_keys=True).encode()).hexdigest()

    @property
    def learnt(self) -> dict[str, str]:
        """What was learnt from or stopped the training: name and fingerprint."""
        return self.train | self.validation

    def merged(self) -> "Split":
        """Return the split with the validation sections among those that are trained on."""
        return self.model_copy(update={"train": self.learnt, "validation": {}})

    @property
    def shared(self) -> tuple[str, ...]:
        """Patients that lie on two sides."""
        sides = [{self.patients[s] for s in side} for side in (self.train, self.validation, self.test)]
        return tuple(sorted({p for i, a in enumerate(sides) for b in sides[:i] for p in a & b}))


def patient_hash(name: str) -> str:
    """Return what stands for a patient's name in a model."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def plan(config: SplitConfig, patients: Mapping[str, str], prints: Mapping[str, str], seed: int) -> dict[str, Split]:
    """Split sections.

    Parameters
    ----------
    config
        How.
    patients, prints
        Patient and fingerprint of each section, by name.
    seed
        Seed of what is drawn.

    Returns
    -------
    The folds by name, and last ``"final"``, the run that makes the model.

    Raises
    ------
    ConfigError
        If there are too few sections or patients, one that is named is not there, or a patient lies on two sides
        without being named in ``shared_patients``.
    """
    tests = _tests(config, patients, seed)
    if FINAL in patients or FINAL in patients.values():
        raise ConfigError(
            FINAL, "a section or patient is called so", "give it another name; the final run has this one"
        )
    splits = {}
    for number, (name, test) in enumerate(tests.items()):
        rest = [s for s in patients if s not in test]
        validation = _validation(config, rest, patients, np.random.default_rng([seed, number]))
        sides = ([s for s in rest if s not in validation], validation, test)
        train, val, judged = ({s: prints[s] for s in side} for side in sides)
        splits[name] = Split(
            train=train, validation=val, test=judged, patients={s: patients[s] for s in (*sides[0], *val, *judged)}
        )
    _check(config, splits)
    return splits


def _tests(config: SplitConfig, patients: Mapping[str, str], seed: int) -> dict[str, list[str]]:
    """Return the sections that judge each run."""
    by_patient: dict[str, list[str]] = {}
    for section, patient in patients.items():
        by_patient.setdefault(patient, []).append(section)
    match config.method:
        case "none":
            return {FINAL: []}
        case "holdout":
            return {FINAL: _holdout(config, by_patient, seed)}
        case "leave_one_section_out":
            _enough(len(patients), 2, "sections", config.method)
            return {s: [s] for s in patients} | {FINAL: []}
        case "leave_one_patient_out":
            _enough(len(by_patient), 2, "patients", config.method)
            return dict(by_patient) | {FINAL: []}
        case "kfold":
            _enough(len(by_patient), config.folds, "patients", f"{config.folds} folds")
            names = list(patients)
            folds = GroupKFold(config.folds, shuffle=True, random_state=seed)
            parts = folds.split(names, groups=[patients[s] for s in names])
            return {f"fold-{i}": [names[j] for j in test] for i, (_, test) in enumerate(parts, 1)} | {FINAL: []}


def _holdout(config: SplitConfig, by_patient: Mapping[str, list[str]], seed: int) -> list[str]:
    """Return the sections of the patients, or the sections, that are named, or those of some patients drawn."""
    sections = [s for own in by_patient.values() for s in own]
    if config.test:
        unknown = [name for name in config.test if name not in by_patient and name not in sections]
        if unknown:
            have = ", ".join((*by_patient, *sections)[:20])
            why = f"the data have no patient or section {unknown[0]}"
            raise ConfigError("split.test", why, f"choose among {have} with --split.test or in the configuration")
        return [s for patient, own in by_patient.items() for s in own if {patient, s} & set(config.test)]
    _enough(len(by_patient), 2, "patients", config.method)
    drawn = _some(list(by_patient), config.test_share, np.random.default_rng(seed))
    return [s for patient in drawn for s in by_patient[patient]]


def _validation(
    config: SplitConfig, rest: Sequence[str], patients: Mapping[str, str], random: np.random.Generator
) -> list[str]:
    """Draw the sections of a training set that stop its training."""
    if config.validation == "none":
        return []
    units = list(rest) if config.validation == "section" else list(dict.fromkeys(patients[s] for s in rest))
    if len(units) < 2:
        remedy = "add sections, set split.validation: none and choose trainer.max_epochs yourself"
        if config.validation == "patient" and len(rest) > 1:
            remedy = "set split.validation: section (optimistic, as one patient is then on two sides) or none"
        why = f"a training set has only {len(units)} {config.validation}, so none can be held out to stop it"
        raise ConfigError("split.validation", why, remedy)
    drawn = set(_some(units, config.validation_share, random))
    return [s for s in rest if (s if config.validation == "section" else patients[s]) in drawn]


def _some(units: Sequence[str], share: float, random: np.random.Generator) -> list[str]:
    """Draw a share of ``units``, at least one and not all."""
    number = min(max(1, math.floor(share * len(units) + 0.5)), len(units) - 1)
    return [units[i] for i in sorted(random.permutation(len(units))[:number])]


def _enough(found: int, needed: int, what: str, method: str) -> None:
    """Raise if there are too few of what is split."""
    if found < needed:
        why = f"{method} needs {needed} {what}, and there {'is' if found == 1 else 'are'} {found}"
        remedy = "add data, or choose another, see split.method in docs/training.md"
        alone = f"; sections of one patient go with {one_patient('PATIENT')}, and the figures are then optimistic"
        raise ConfigError("split.method", why, remedy + alone * (what == "patients"))


def one_patient(name: str) -> str:
    """Return the settings that split the sections of one patient, whose figures are then optimistic."""
    return f"--split.method leave_one_section_out --split.validation section --split.shared_patients '[{name}]'"


def _check(config: SplitConfig, splits: Mapping[str, Split]) -> None:
    """Raise if a run has nothing to train on, or a patient is on two sides unannounced."""
    known = {patient for split in splits.values() for patient in split.patients.values()}
    for patient in config.shared_patients:
        if patient not in known:
            have = ", ".join(sorted(known)[:20])
            raise ConfigError("split.shared_patients", f"there is no patient {patient}", f"choose among {have}")
    for name, split in splits.items():
        if not split.train:
            raise ConfigError("split", f"nothing is left to train on in {name}", "hold out less")
        unnamed = [p for p in split.shared if p not in config.shared_patients]
        if unnamed:
            why = f"patient {unnamed[0]} would be on two sides in {name}, so that its figures would be optimistic"
            remedy = "split by patient, or name the patient in split.shared_patients to accept that"
            raise ConfigError("split", why, remedy)
