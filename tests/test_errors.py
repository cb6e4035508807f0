import pickle

import pytest

from genar import errors
from genar.errors import GenarError


@pytest.mark.parametrize("kind", [GenarError, *GenarError.__subclasses__()])
def test_an_error_can_be_sent_to_another_process(kind: type[GenarError]) -> None:
    error = kind("a.svs", "it is\nbroken", "give another")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "a.svs: it is\nbroken; give another"
    assert (again.what, again.why, again.remedy) == (error.what, error.why, error.remedy)
    assert kind in vars(errors).values()
