"""Makes the image's file system: a Python without what a scheduler never runs, what requirements.txt pins, and schedcache.

Runs in the Dockerfile's first stage with the base image's Python, and needs nothing but its standard library and pip:

    python3 assemble.py CONTEXT TARGET

CONTEXT has `wheels/` and `requirements.txt`. TARGET gets a folder for each layer: `python`, `dependencies`, `schedcache`. The same
input and SOURCE_DATE_EPOCH, which the bill of materials tells, give the same files, byte for byte and with the same times.
"""

import compileall
import fnmatch
import os
import pathlib
import py_compile
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator

import checks
import sbom

SITE = pathlib.PurePosixPath("opt/schedcache")
SBOM = "sbom.cdx.json"
NOBODY = 65532
FILE_TIME = 315_532_800
"""1980: the first year that a zip archive can tell."""
LAYERS = ("python", "dependencies", "schedcache")
SEARCHED = ("/usr/local/bin", "/usr/bin")
"""Of the image's PATH."""

UNUSED_STDLIB = (
    "site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "tkinter", "turtle*",
    "config-*", "__pycache__", "*.a",
    # Extensions that would bring libraries for terminals, windows and local databases, and those for CPython's own tests.
    "_tkinter.*", "_curses*", "readline.*", "_dbm.*", "_gdbm.*", "nis.*", "ossaudiodev.*", "_test*", "_ctypes_test.*", "xx*",
)  # fmt: skip
"""Names in the standard library, at any depth."""

UNUSED_PACKAGES = (
    "*/tests/*", "*/test/*", "*_test.py", "*/test_*.py", "*/conftest.py", "*.pyi", "*.pyx", "*.pxd", "*.c", "*.h", "*.a",
    # The official client is there for kubeconfigs and credentials: 126 MB of its 128 are objects and calls, twice.
    "kubernetes/aio/*", "kubernetes/client/api/*", "kubernetes/client/apis/*", "kubernetes/client/models/*",
    "numpy/f2py/*", "numpy/distutils/*", "numpy/_pyinstaller/*",
)  # fmt: skip
"""Paths below the folder of packages. What importing needs of them is kept nevertheless, see `needed`."""

RUNTIME_LIBRARIES = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Opened by name: glibc's, to end a thread, and for names where it is older than 2.34."""

PASSWD = f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{NOBODY}:{NOBODY}:nonroot:/tmp:/sbin/nologin\n"
GROUP = f"root:x:0:\nnonroot:x:{NOBODY}:\n"


def main(context: pathlib.Path, target: pathlib.Path) -> None:
    """Assemble TARGET from CONTEXT, see above."""
    root = target / "root"
    site = root / SITE
    install(context, site)
    prune(site, UNUSED_PACKAGES, needed(site))
    copied = [*copy_python(root), *copy_libraries(root), *write_configuration(root)]
    index_libraries(root)
    copy_licences(root, copied)
    compile_once(root)
    (site / SBOM).write_text(sbom.document(context, site, copied))
    checks.run(root, NOBODY)
    split(root, target)
    for layer in LAYERS:
        set_times(target / layer)


def install(context: pathlib.Path, site: pathlib.Path) -> None:
    """What requirements.txt pins, by hash, and nothing else."""
    options = ["--no-index", "--no-deps", "--require-hashes", "--no-compile", "--no-cache-dir", "--quiet"]
    options += ["--disable-pip-version-check", "--root-user-action", "ignore"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--find-links", context / "wheels"]
    subprocess.run([*pip, "--requirement", context / "requirements.txt", "--target", site], check=True)
    # Commands of other packages: ours is the only one that anybody runs here.
    for command in (site / "bin").iterdir():
        if command.name != "schedcache":
            command.unlink()


def needed(site: pathlib.Path) -> frozenset[str]:
    """Files that are read when everything of schedcache is imported, relative to `site`."""
    program = "import pkgutil, importlib, sys\nimport schedcache, kopf\n"
    program += "for module in pkgutil.walk_packages(schedcache.__path__, 'schedcache.'):\n"
    program += "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
    program += "print(*(getattr(m, '__file__', None) or '' for m in list(sys.modules.values())), sep='\\n')\n"
    found = python(program, site)
    return frozenset(os.path.relpath(file, site) for file in found.splitlines() if file.startswith(f"{site}/"))


def python(program: str, site: pathlib.Path) -> str:
    """What a program prints that sees the standard library and `site` alone."""
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-S", "-B", "-c", program]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def prune(site: pathlib.Path, unused: Iterable[str], keep: frozenset[str]) -> None:
    """Remove files by pattern, folders that are empty then, and their lines from the packages' own lists of files."""
    for path in [path for path in site.rglob("*") if path.is_file()]:
        name = path.relative_to(site).as_posix()
        if name not in keep and any(fnmatch.fnmatchcase(name, pattern) for pattern in unused):
            path.unlink()
    for folder in sorted((path for path in site.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (site / record_path(line)).exists()))


def record_path(line: str) -> str:
    """The file that a line of RECORD is about; pip's --target leaves commands beside the packages."""
    return re.sub(r"^(\.\./)+", "", line.rpartition(",")[0].rpartition(",")[0].strip('"'))


def copy_python(root: pathlib.Path) -> list[pathlib.Path]:
    """The interpreter and its standard library, under the paths that they have here; those paths."""
    executable = pathlib.Path(sys.executable)
    binary = executable.resolve()
    copy(binary, root)
    link = pathlib.Path(executable.parent if str(executable.parent) in SEARCHED else SEARCHED[0], "python3")
    (at(root, link.parent) / link.name).symlink_to(binary)
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        place = at(root, folder)
        shutil.copytree(folder, place, ignore=shutil.ignore_patterns(*UNUSED_STDLIB), dirs_exist_ok=True)
    return [binary]


def copy_libraries(root: pathlib.Path) -> list[pathlib.Path]:
    """Shared libraries of the base that anything in `root` is linked with, and glibc's loader; their paths."""
    programs = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path)]
    found = sorted({library for program in programs for library in libraries(program)})
    folders = {library.parent for library in found}
    found += [folder / name for folder in sorted(folders) for name in RUNTIME_LIBRARIES if (folder / name).exists()]
    outside = [library for library in found if not library.is_relative_to(root)]
    for library in outside:
        copy(library, root)
    return outside


def index_libraries(root: pathlib.Path) -> None:
    """The loader's index, in which it finds libraries that are not in its own folders."""
    for file in ("/etc/ld.so.conf", *pathlib.Path("/etc/ld.so.conf.d").glob("*.conf")):
        copy(pathlib.Path(file), root)
    subprocess.run(["ldconfig", "-r", root, "-X", "-i"], check=True)


def is_elf(path: pathlib.Path) -> bool:
    """Whether it is a program or a shared library."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(program: pathlib.Path) -> Iterator[pathlib.Path]:
    """What the loader would load for it, by the paths at which it would look.

    Raises:
        SystemExit: it would not find all of them.
    """
    listed = subprocess.run(["ldd", program], check=False, capture_output=True, text=True).stdout
    if "not found" in listed:
        raise SystemExit(f"{program} lacks libraries:\n{listed}")
    for path in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.MULTILINE):
        yield pathlib.Path(os.path.normpath(path))


def write_configuration(root: pathlib.Path) -> list[pathlib.Path]:
    """Users, name look-up, certificate authorities, which system this came from, and a /tmp for those who mount none.

    Returns:
        A path of the package whose files went into what was written.
    """
    etc = at(root, "/etc")
    (etc / "passwd").write_text(PASSWD)
    (etc / "group").write_text(GROUP)
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    release = pathlib.Path("/etc/os-release")
    if release.exists():
        (etc / "os-release").write_bytes(release.read_bytes())
    paths = ssl.get_default_verify_paths()
    bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    if bundle.exists():
        copy(bundle, root)
        default = pathlib.Path(paths.openssl_cafile)
        if default != bundle:
            (at(root, default.parent) / default.name).symlink_to(bundle)
    temporary = at(root, "/tmp")  # noqa: S108 -- the image's, not ours
    temporary.chmod(0o1777)
    return [pathlib.Path("/usr/share/ca-certificates")]


def copy_licences(root: pathlib.Path, copied: Iterable[pathlib.Path]) -> None:
    """The licences of the base's packages that files were taken of, where the base has them."""
    for package in {sbom.package_of(file) for file in copied}:
        licence = pathlib.Path("/usr/share/doc", package.partition(":")[0], "copyright")
        if package and licence.exists():
            copy(licence, root)


def compile_once(root: pathlib.Path) -> None:
    """Bytecode beside every module, which is never compared with its source: the image's files do not change.

    Without it, each start would compile everything, for the file system is read-only.
    """
    for path in [*root.rglob("__pycache__")]:
        shutil.rmtree(path)
    # The path that tracebacks name is the image's. Modules that are not Python 3 (templates, say) are left without.
    compileall.compile_dir(
        root, maxlevels=50, quiet=2, stripdir=str(root), prependdir="/", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip


def split(root: pathlib.Path, target: pathlib.Path) -> None:
    """Move the files into the layers' folders: what changes seldom is pulled seldom."""
    (target / "python").mkdir()
    for path in root.iterdir():
        if path.name != SITE.parts[0]:
            path.rename(target / "python" / path.name)
    for layer, belongs in layer_rules():
        folder = target / layer / SITE
        folder.mkdir(parents=True)
        for path in [path for path in (root / SITE).iterdir() if belongs(path.name)]:
            path.rename(folder / path.name)
    shutil.rmtree(root)


def layer_rules() -> list[tuple[str, Callable[[str], bool]]]:
    """Which names in the folder of packages belong to which layer."""
    ours: Callable[[str], bool] = lambda name: name.startswith("schedcache") or name in {"bin", SBOM}  # noqa: E731 -- one of a pair
    return [("dependencies", lambda name: not ours(name)), ("schedcache", ours)]


def set_times(folder: pathlib.Path) -> None:
    """One time for all files and folders, so that a layer whose content stays the same stays the same; no rights for writers."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o1777 if mode & 0o1000 else 0o755 if path.is_dir() or mode & 0o100 else 0o644)
        os.utime(path, (FILE_TIME, FILE_TIME), follow_symlinks=False)


def at(root: pathlib.Path, folder: str | pathlib.Path) -> pathlib.Path:
    """A folder of the base below `root`, made if need be."""
    place = root / str(folder).lstrip("/")
    place.mkdir(parents=True, exist_ok=True)
    return place


def copy(file: pathlib.Path, root: pathlib.Path) -> None:
    """A file of the base, or what a link there leads to, under the same path below `root`."""
    shutil.copy2(file, at(root, file.parent) / file.name)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2]).absolute())
