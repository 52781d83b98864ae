"""Pages as files."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from backends.gsm.engine.errors import PageUnreadable, StoreUnusable
from backends.gsm.engine.store import PageStore, StoredPage
from backends.gsm.page_header import HEADER_BYTES

SIZE = 4096
IDENTITY = {"weights": "smollm2 1234", "kv_dtype": "float32"}
PAGE = StoredPage(b"\x3f" * 36, b"\x40" * 36)
CONTENT = bytes(range(256)) * (SIZE // 256)


class Stores:
    """Opens stores over one folder and closes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: list[PageStore] = []

    def open(self, **identity: str) -> PageStore:
        store = PageStore(self._folder, SIZE, IDENTITY | identity)
        self._open.append(store)
        return store

    def open_with_a_page(self) -> PageStore:
        store = self.open()
        store.write(PAGE, memoryview(CONTENT))
        return store

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@pytest.fixture
def stores(tmp_path: Path) -> Generator[Stores]:
    opened = Stores(tmp_path)
    yield opened
    opened.close()


def file_of(folder: Path) -> Path:
    (path,) = folder.glob("*/*.page")
    return path


def test_a_page_is_found_again_by_another_run(tmp_path: Path, stores: Stores) -> None:
    stores.open_with_a_page()
    stores.close()

    store = stores.open()
    content = bytearray(SIZE)
    (found,) = store.scan().pages
    store.read(found.key, memoryview(content))

    assert (found.key, found.parent) == (PAGE.key, PAGE.parent)
    assert content == CONTENT
    assert file_of(tmp_path).stat().st_size == store.file_bytes == HEADER_BYTES + SIZE


def test_pages_are_found_in_the_order_of_their_last_use(tmp_path: Path, stores: Stores) -> None:
    store = stores.open_with_a_page()
    for number in range(3):
        store.write(StoredPage(bytes([number] * 36), None), memoryview(CONTENT))
    for path in tmp_path.glob("*/*.page"):
        os.utime(path, (0, int(path.name[:2], 16)))  # in the order of their names
    store.read(bytes([1] * 36), memoryview(bytearray(SIZE)))

    assert [page.key[0] for page in store.scan().pages] == [0, 2, 0x3F, 1]


@pytest.mark.parametrize("at", [3, 100, HEADER_BYTES - 1])
def test_a_damaged_header_is_found_at_the_start_and_deleted(tmp_path: Path, stores: Stores, at: int) -> None:
    stores.open_with_a_page()
    stores.close()
    path = file_of(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[at] ^= 4
    path.write_bytes(raw)

    found = stores.open().scan()

    assert (found.pages, found.corrupt) == ([], [path])
    assert not path.exists()


def test_damage_inside_a_page_is_found_when_it_is_read(tmp_path: Path, stores: Stores) -> None:
    store = stores.open_with_a_page()
    path = file_of(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 4
    path.write_bytes(raw)

    with pytest.raises(PageUnreadable, match="is not as it was written"):
        store.read(PAGE.key, memoryview(bytearray(SIZE)))


def test_a_file_under_another_name_is_not_taken_for_what_its_name_says(
    tmp_path: Path, stores: Stores
) -> None:
    store = stores.open_with_a_page()
    path = file_of(tmp_path)
    other = StoredPage(b"\x3f" * 35 + b"\x00", None)
    path.rename(path.with_name(f"{other.key.hex()}.page"))

    with pytest.raises(PageUnreadable, match="another page than its name says"):
        store.read(other.key, memoryview(bytearray(SIZE)))
    assert store.scan().pages == []


def test_files_that_are_not_ours_are_let_be(tmp_path: Path, stores: Stores) -> None:
    store = stores.open_with_a_page()
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "thesis.doc").write_text("do not lose")

    assert store.scan().foreign == [tmp_path / "ab" / "thesis.doc"]
    assert (tmp_path / "ab" / "thesis.doc").exists()


def test_what_a_crash_left_half_written_goes_at_the_next_start(tmp_path: Path, stores: Stores) -> None:
    stores.open_with_a_page()
    stores.close()
    (tmp_path / "aside" / "5").write_bytes(b"half")

    stores.open()

    assert list((tmp_path / "aside").iterdir()) == []


def test_a_store_of_another_model_is_refused_with_both_names(tmp_path: Path, stores: Stores) -> None:
    stores.open_with_a_page()
    stores.close()

    with pytest.raises(StoreUnusable, match="weights: smollm2 1234 there, qwen 99 here"):
        stores.open(weights="qwen 99")
    assert file_of(tmp_path).exists()


def test_two_engines_cannot_use_one_folder(stores: Stores) -> None:
    stores.open()

    with pytest.raises(StoreUnusable, match="another engine uses"):
        stores.open()
    stores.close()
    stores.open()


def test_a_folder_that_cannot_be_written_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreUnusable, match="give a folder that this process may write to as gsm_disk_path"):
        PageStore(tmp_path / "file" / "store", SIZE, IDENTITY)


def test_a_description_that_cannot_be_read_is_not_guessed_at(tmp_path: Path, stores: Stores) -> None:
    stores.open_with_a_page()
    stores.close()
    (tmp_path / "store.json").write_text("{")

    with pytest.raises(StoreUnusable, match="is no description of a store"):
        stores.open()


FULL_DISK = """
import resource, sys
from pathlib import Path
from backends.gsm.engine.store import PageStore, StoredPage
store = PageStore(Path(sys.argv[1]), 1 << 20, {})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
try:
    store.write(StoredPage(b"k" * 36, None), memoryview(bytes(1 << 20)))
except OSError as error:
    print(error.strerror)
"""


def test_a_write_for_which_there_is_no_room_leaves_nothing(tmp_path: Path) -> None:
    """The limit of a process stands for a full disk: the kernel refuses the rest of a file that has begun."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path], capture_output=True, text=True, check=True
    )

    assert "too large" in done.stdout
    assert list(tmp_path.glob("*/*")) == []
