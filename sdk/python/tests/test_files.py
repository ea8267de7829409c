"""Files and directories of a session, against the real service."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from tusclient.client import TusClient

from belljar import BelljarError, NotFound, Session
from belljar import _directories as directories
from conftest import Service


def test_files_as_a_person_expects(session: Session) -> None:
    files = session.files
    files.mkdir("a/b")
    files.mkdir("a/b")
    files.put("a/b/c", b"123")
    status = files.stat("a/b/c")
    assert (status.kind, status.size, status.mode) == ("file", 3, 0o644)
    assert files.stat("/workspace/a").kind == "directory"
    assert files.exists("a") and not files.exists("nothing") and not files.exists("a/b/c/d")
    files.rename("a/b/c", "new/name")
    assert files.get("new/name") == b"123"
    with pytest.raises(NotFound):
        files.rename("a/b/c", "x")
    with pytest.raises(BelljarError) as refused:
        files.mkdir("new/name")
    assert refused.value.code == "file_exists"
    with pytest.raises(BelljarError) as refused:
        files.rename("new/name", "a")
    assert refused.value.code == "file_exists"
    with pytest.raises(BelljarError) as refused:
        files.delete("a")
    assert refused.value.code == "file_refused"
    files.delete("a", recursive=True)
    assert [file.path for file in files.list().files] == ["new", "new/name"]


def test_tmp_and_nothing_else(session: Session) -> None:
    session.files.put("/tmp/d/x", b"1")
    assert session.run("open('/tmp/d/x').read()").value == "'1'"
    assert session.files.get("/tmp/d/x") == b"1"
    assert [file.path for file in session.files.list("/tmp/d").files] == ["/tmp/d/x"]
    session.files.delete("/tmp/d", recursive=True)
    assert not session.files.exists("/tmp/d")
    for path in ("/etc/passwd", "/dev/shm/x"):
        with pytest.raises(BelljarError, match="permission denied") as refused:
            session.files.get(path)
        assert refused.value.code == "path_denied"


def test_directories_in_and_out(session: Session, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "deep" / "er").mkdir(parents=True)
    (project / "empty").mkdir()
    (project / "deep" / "er" / "名").write_text("text")
    script = project / "run.sh"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    (project / "linked").symlink_to(script)
    session.files.upload_directory(project)
    ran = session.commands.run("project/run.sh; project/linked; ls project")
    assert ran.stdout == "ran\nran\ndeep\nempty\nlinked\nrun.sh\n"
    session.run("import os; os.symlink('/etc', 'project/etc'); os.mkfifo('project/pipe')")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.sh").symlink_to("elsewhere")
    (tmp_path / "out" / "mine").write_text("mine")
    session.files.download_directory("project", tmp_path / "out")
    names = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*"))
    assert names == ["deep", "deep/er", "deep/er/名", "empty", "linked", "mine", "run.sh"]
    assert (tmp_path / "out" / "deep" / "er" / "名").read_text() == "text"
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o100
    assert not (tmp_path / "out" / "run.sh").is_symlink() and not (tmp_path / "out" / "elsewhere").exists()
    session.files.upload_directory(project, "/tmp/there")
    assert session.files.exists("/tmp/there/deep/er/名")
    (project / "circle").symlink_to(project)
    with pytest.raises(ValueError, match="circle"):
        session.files.upload_directory(project)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x"])
def test_an_archive_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as writer:
        writer.addfile(tarfile.TarInfo(name))
    archive.seek(0)
    with pytest.raises(BelljarError):
        directories.unpack(archive, tmp_path / "to")
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as writer:
        writer.addfile(link)
    archive.seek(0)
    with pytest.raises(BelljarError):
        directories.unpack(archive, tmp_path / "to")
    assert list(tmp_path.rglob("*")) == []


def test_changes_as_they_happen(session: Session) -> None:
    session.files.mkdir("d")
    with session.files.watch("d") as watch:
        changes = iter(watch)
        session.run("_ = open('d/a', 'w').write('1')")
        first, second = next(changes), next(changes)
        assert [(first.type, first.name), (second.type, second.name)] == [("created", "a"), ("written", "a")]
        session.files.delete("d", recursive=True)
        assert [change.type for change in changes] == ["deleted"]
    with pytest.raises(NotFound):
        session.files.watch("d")


def test_a_client_of_tus_uploads_in_parts(service: Service, session: Session) -> None:
    contents = bytes(range(256)) * 4000
    url = f"{service.url}/v1/sessions/{session.id}/uploads"
    client = TusClient(url, headers={"Authorization": f"Bearer {service.key}"})
    metadata = {"filename": "data/large.bin"}
    uploader = client.uploader(file_stream=io.BytesIO(contents), chunk_size=300_000, metadata=metadata)
    uploader.upload_chunk()  # type: ignore[no-untyped-call]
    assert not session.files.exists("data/large.bin")
    # Another client continues the upload.
    another = client.uploader(file_stream=io.BytesIO(contents), chunk_size=300_000, url=uploader.url)
    assert another.offset == 300_000
    another.upload()
    assert session.files.get("data/large.bin") == contents
