from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from edge_agent.config.load import load_config
from edge_agent.errors import ConfigError


def test_every_fault_comes_at_once_with_its_path(faults_of: Any, camera: Any) -> None:
    faults = faults_of(
        """
        [http]
        port = "8000"
        [agent]
        stop_timeout_s = 0
        log_level = "loud"
        [grpc]
        [hosts."no good"]
        """
        + camera(more="max_fpss = 3\nmin_score = 7\n")
    )
    assert set(faults) == {
        "http.port",
        "agent.stop_timeout_s",
        "agent.log_level",
        "grpc",
        "hosts.no good",
        "cameras.dock.max_fpss",
        "cameras.dock.min_score",
    }
    assert faults["http.port"][0] == 'should be a whole number, not "8000"'
    assert faults["cameras.dock.max_fpss"] == ("unknown key", "did you mean max_fps?")
    assert faults["agent.log_level"][0].startswith("should be 'debug', 'info', 'warning' or 'error', not")
    assert all(cure for _, cure in faults.values())


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[http]\nport = true", "http.port"),
        ("[http]\nport = 1.5", "http.port"),
        ("[http]\nport = 65536", "http.port"),
        ("[mqtt]\ntls = 1", "mqtt.tls"),
        ("[agent]\ntitle = 5", "agent.title"),
        ('[agent]\ntitle = "a\\nb"', "agent.title"),
        ("[agent]\nstop_timeout_s = nan", "agent.stop_timeout_s"),
        ("http = 5", "http"),
        ("http = []", "http"),
        ("cameras = 1", "cameras"),
        ("[cameras]\nname = 1", "cameras"),
        ("config_version = 2", "config_version"),
        ("[models]\nrepository = 3", "models.repository"),
        ("[models]\nrepository = []", "models.repository"),
        ('[models]\nload = ["../x"]', "models.load"),
        ('[http]\nallow_anonymous = "some"', "http.allow_anonymous"),
        ('[http]\nallow_anonymous = ["infer", "tokens"]', "http.allow_anonymous"),
        ('[http]\ntls_cert_file = "a.pem"', "http"),
        ('[http]\nallowed_hosts = ["http://a"]', "http.allowed_hosts"),
        ("[hosts.cpu]\nthreads = 0", "hosts.cpu.threads"),
        ('[hosts.cpu]\nthreads = "many"', "hosts.cpu.threads"),
        ('[mqtt]\nprefix = "a/#"', "mqtt.prefix"),
        ('[mqtt]\nprefix = "a/{name}"', "mqtt.prefix"),
        ('[mqtt]\nca_file = "a.pem"', "mqtt"),
        ('[mqtt]\npassword_file = "a"', "mqtt"),
        ('[store]\npath = ":memory:"', "store.path"),
        ("when = 2020-01-01", "when"),
    ],
)
def test_a_wrong_value_is_a_fault_of_its_key(faults_of: Any, text: str, path: str) -> None:
    faults = faults_of(text)
    assert set(faults) == {path}
    assert faults[path][0]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("prot", "port"), ("max_body_size", "max_body_bytes"), ("Port", "port"), ("allow-anonymous", "allow_anonymous")],
)
def test_a_misspelt_key_is_told_the_nearest_one(faults_of: Any, typed: str, meant: str) -> None:
    assert faults_of('[http]\n"%s" = 1' % typed) == {"http.%s" % typed: ("unknown key", "did you mean %s?" % meant)}


def test_a_key_like_no_other_is_told_the_keys_there_are(faults_of: Any) -> None:
    assert faults_of("[metrics]\nzzz = 1")["metrics.zzz"][1] == "the keys here are port"


def test_two_cameras_of_one_name_are_a_fault(faults_of: Any, camera: Any) -> None:
    faults = faults_of(camera() + camera())
    assert "two cameras have the name dock" in faults["the whole file"][0]


def test_a_camera_lacks_what_it_needs(faults_of: Any) -> None:
    faults = faults_of('[[cameras]]\ntitle = "x"')
    assert set(faults) == {"cameras[0].name", "cameras[0].source", "cameras[0].model"}
    assert faults["cameras[0].model"][0] == "is missing"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"\0" * 512, "empty"),
        (b"[http\n", "not TOML"),
        (b"a = 1\na = 2\n", "not TOML"),
        (b"a = 'x'\nb = '\xff'\n", "not UTF-8 text (line 2)"),
        (b"x = " + b"[" * 5000, "nested too deeply"),
        (b"#" * 1_100_000, "over 1 MB"),
    ],
    ids=["none", "blank", "nul", "cut", "twice", "latin", "nested", "large"],
)
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, data: bytes, what: str) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    ((path, said, cure),) = caught.value.faults
    assert path == str(file)
    assert what in said
    assert cure


def test_no_file_and_a_folder_are_faults(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_a_fault(write: Any) -> None:
    file = write("config_version = 1")
    file.chmod(0)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(file, {})


def test_byte_order_mark_and_crlf_are_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"\xef\xbb\xbf[http]\r\nport = 9\r\n")
    assert load_config(file, {}).http.port == 9


def test_relative_paths_count_from_the_files_folder(write: Any, tmp_path: Path, camera: Any) -> None:
    config = load_config(
        write(
            """
            [agent]
            state_dir = "../var"
            [models]
            repository = ["models", "/opt/models"]
            [http]
            tls_cert_file = "a.pem"
            tls_key_file = "b.pem"
            [mqtt]
            username = "u"
            password_file = "secret"
            """
            + camera(more='password_file = "sub/secret"\nusername = "u"\n'),
            "etc/agent.toml",
        ),
        {},
    )
    assert config.agent.state_dir == tmp_path / "var"
    assert config.models.repository == (tmp_path / "etc/models", Path("/opt/models"))
    assert config.http.tls_cert_file == tmp_path / "etc/a.pem"
    assert config.cameras[0].source == str(tmp_path / "etc/clip.mp4")
    assert config.cameras[0].password_file == tmp_path / "etc/sub/secret"
    assert config.mqtt is not None
    assert config.mqtt.password_file == tmp_path / "etc/secret"


def test_a_bare_secret_name_is_a_systemd_credential_when_there_is_one(write: Any, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "broker").write_text("x")
    file = write('[mqtt]\nusername = "u"\npassword_file = "broker"')
    with_credential = load_config(file, {"CREDENTIALS_DIRECTORY": str(credentials)}).mqtt
    without = load_config(file, {}).mqtt
    assert with_credential is not None
    assert without is not None
    assert with_credential.password_file == credentials / "broker"
    assert without.password_file == tmp_path / "broker"


def test_an_empty_file_name_is_none(write: Any) -> None:
    config = load_config(write('[mqtt]\npassword_file = ""\n[http]\nuds_path = ""'), {})
    assert config.mqtt is not None
    assert config.mqtt.password_file is None
    assert config.http.uds_path is None


def test_an_absent_section_is_off(write: Any) -> None:
    config = load_config(write("config_version = 1"), {})
    assert config.mqtt is None
    assert config.cameras == ()
    assert config.host("gpu").threads == "auto"


def test_the_configuration_is_frozen(write: Any) -> None:
    config = load_config(write("config_version = 1"), {})
    with pytest.raises(Exception, match="frozen"):
        config.http.port = 1  # type: ignore[misc]


def test_conf_d_lies_over_the_file_in_the_order_of_names(write: Any, camera: Any) -> None:
    file = write("[http]\nport = 1\nmax_body_bytes = 2048\n" + camera())
    write("[http]\nport = 3\n", "conf.d/20-b.toml")
    write(
        "[http]\nport = 2\n[[cameras]]\nname = 'dock'\nmax_fps = 3\n[[cameras]]\nname='b'\nmodel='m'\nsource='x'\n",
        "conf.d/10-a.toml",
    )
    write("not toml at all", "conf.d/notes.txt")
    config = load_config(file, {})
    assert (config.http.port, config.http.max_body_bytes) == (3, 2048)
    assert [(camera.name, camera.max_fps) for camera in config.cameras] == [("dock", 3), ("b", 10)]


def test_a_fault_in_conf_d_names_its_file(write: Any, camera: Any) -> None:
    file = write("[http]\nport = 1\n" + camera())
    other = write("[http]\nprot = 3\n[[cameras]]\nname = 'dock'\nmax_fps = -1\n", "conf.d/a.toml")
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert [path for path, _, _ in caught.value.faults] == ["http.prot", "cameras.dock.max_fps"]
    assert all("(set in %s)" % other in what for _, what, _ in caught.value.faults)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("rtsp://user:hunter2@10.0.0.5/1", "has a password in it"),
        ("http://:hunter2@10.0.0.5/1", "has a password in it"),
        ("rtsp:///stream", "has no host"),
        ("rtsp://10.0.0.5:notaport/", "not a usable address"),
        ("ftp://10.0.0.5/", "should be an address"),
        ("csi://0", "not available in this version"),
        ("gst:videotestsrc ! appsink", "not available in this version"),
        ("push", "not available in this version"),
        ("", "should not be empty"),
    ],
)
def test_a_source_that_cannot_be_used_is_a_fault(faults_of: Any, camera: Any, source: str, what: str) -> None:
    faults = faults_of(camera(source))
    assert what in faults["cameras.dock.source"][0]
    assert "hunter2" not in str(faults)


@pytest.mark.parametrize(
    "source", ["rtsp://user@10.0.0.5/1", "https://cam.local:8443/mjpeg?x=1", "/dev/video0", "rtsp://[fe80::1]/x"]
)
def test_addresses_and_devices_stay_as_they_are(write: Any, camera: Any, source: str) -> None:
    assert load_config(write(camera(source)), {}).cameras[0].source == source


def test_a_list_of_one_model_is_that_model(write: Any, faults_of: Any) -> None:
    text = "[[cameras]]\nname='a'\nsource='x'\nmodel = %s"
    assert load_config(write(text % "['face']"), {}).cameras[0].model == "face"
    assert "one model per camera" in faults_of(text % "['face', 'car']")["cameras.a.model"][0]
    assert "cameras.a.model" in faults_of(text % "'../face'")


def test_explicit_mode_loads_what_is_listed(write: Any) -> None:
    models = load_config(write('[models]\ncontrol_mode = "explicit"\nload = ["a"]'), {}).models
    assert models.wants("a")
    assert not models.wants("b")
    assert load_config(write('[models]\nload = ["a"]'), {}).models.wants("b")
    assert load_config(write('[models]\ncontrol_mode = "explicit"'), {}).models.wants("b")
