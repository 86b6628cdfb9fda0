"""Ensembles within ensembles."""

from __future__ import annotations

import pytest

from edge_agent import errors
from tests.serving_rig import running

TENSORS = 'input=[{name="x",data_type="TYPE_FP32",dims=[1]}]\noutput=[{name="y",data_type="TYPE_FP32",dims=[1]}]\n'
STEP = '[[ensemble_scheduling.step]]\nmodel_name="%s"\nmodel_version=-1\ninput_map={x="%s"}\noutput_map={y="%s"}\n'


def add_nested(repository, levels):
    """e0 is a model; each further one calls the one before twice."""
    folder = repository / "e0" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("class Model:\n  def load(self, c): pass\n  def infer(self, i): return {'y': i['x']}\n")
    (repository / "e0" / "config.toml").write_text(TENSORS)
    for level in range(1, levels + 1):
        (repository / ("e%d" % level) / "1").mkdir(parents=True)
        steps = "".join(STEP % ("e%d" % (level - 1), *ends) for ends in (("x", "m"), ("m", "y")))
        (repository / ("e%d" % level) / "config.toml").write_text('platform="ensemble"\n' + TENSORS + steps)


async def test_each_ensemble_is_looked_at_once_however_often_it_is_called(tmp_path):
    add_nested(tmp_path, 12)
    async with running(tmp_path, control_mode="explicit", load=["*"]) as rig:
        looks = []
        lookup = rig.serving._catalogue.lookup
        door = rig.serving._ensembles._door
        object.__setattr__(door, "lookup", lambda name, version: looks.append(name) or lookup(name, version))
        rig.serving.lookup("e12")
        assert len(looks) == 2 * 12
        await rig.serving.unload_model("e0")
        with pytest.raises(errors.ModelNotReady):
            rig.serving.lookup("e12")


async def test_ensembles_nested_too_deep_say_so(tmp_path):
    add_nested(tmp_path, 17)
    async with running(tmp_path, control_mode="explicit", load=["*"]) as rig:
        assert rig.serving.is_ready("e16")
        with pytest.raises(errors.ModelNotReady, match="over more than 16 levels"):
            rig.serving.lookup("e17")
