// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles test programs as a user would: with pkg-config's flags for the staged build, and every warning an error.
//!
//! tools/test names a folder in `PISTE_TEST_PROGRAMS`: what many tests need is compiled once there, until a source or a header changes.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build_tree::{build, programs, repository};
use crate::process::{self, Finished};

/// The warnings that the headers are clean of.
pub const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// One run of a compiler.
#[derive(Clone, Hash)]
pub struct Compilation {
    compiler: String,
    arguments: Vec<OsString>,
    sources: Vec<PathBuf>,
    libraries: Vec<String>,
    libpiste: Libpiste,
}

/// Where a program has libpiste.
#[derive(Clone, Copy, Hash)]
enum Libpiste {
    /// In the staged build.
    Shared,
    /// The staged archive is linked into it.
    Static,
    /// Its sources are compiled with the program's own.
    Inside,
}

impl Compilation {
    /// Of sources in the folder of the test programs, by `cc`, or by `c++` if the first one is C++.
    pub fn of(sources: &[&str]) -> Compilation {
        let cpp = sources[0].ends_with(".cc");
        let (compiler, standard) = if cpp {
            ("c++", "-std=gnu++17")
        } else {
            ("cc", "-std=gnu11")
        };
        let mut arguments = vec!["-O2".into(), "-g".into(), standard.into()];
        arguments.extend(WARNINGS.map(OsString::from));
        Compilation {
            compiler: compiler.into(),
            arguments,
            sources: sources.iter().map(|source| programs().join(source)).collect(),
            libraries: vec![],
            libpiste: Libpiste::Shared,
        }
    }

    /// By that compiler, with these arguments only.
    pub fn by(compiler: &str, arguments: &[&str], source: &Path) -> Compilation {
        Compilation {
            compiler: compiler.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            sources: vec![source.to_owned()],
            libraries: vec![],
            libpiste: Libpiste::Shared,
        }
    }

    /// Of one source in the folder of the test programs and of all of libpiste, by `cc`: sanitizers then see both.
    pub fn with_libpiste_inside(source: &str, arguments: &[&str]) -> Compilation {
        let mut compilation = Compilation::of(&[source]);
        let of_library = ["include", "runtime"].map(|folder| repository().join(folder));
        let sources = fs::read_dir(&of_library[1]).expect("the library's sources are there");
        let mut sources: Vec<PathBuf> = sources.map(|entry| entry.expect("it can be read").path()).collect();
        sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
        sources.sort_unstable();
        compilation.sources.extend(sources);
        compilation.arguments = ["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror"]
            .map(OsString::from)
            .to_vec();
        compilation.arguments.extend(arguments.iter().map(OsString::from));
        for folder in of_library {
            compilation.arguments.extend(["-I".into(), folder.into_os_string()]);
        }
        compilation.libpiste = Libpiste::Inside;
        compilation
    }

    /// With one more argument.
    #[must_use]
    pub fn with(mut self, argument: impl Into<OsString>) -> Compilation {
        self.arguments.push(argument.into());
        self
    }

    /// Linked with `-lLIBRARY` too.
    #[must_use]
    pub fn linking(mut self, library: &str) -> Compilation {
        self.libraries.push(format!("-l{library}"));
        self
    }

    /// A shared library.
    #[must_use]
    pub fn shared(self) -> Compilation {
        self.with("-fPIC").with("-shared")
    }

    /// Linked with `-static`.
    #[must_use]
    pub fn linked_statically(mut self) -> Compilation {
        self.libpiste = Libpiste::Static;
        self.with("-static")
    }

    /// Compiles and links to `output`; what the compiler says is the result.
    pub fn try_link(&self, output: &Path) -> Finished {
        let mut command = self.command();
        command
            .arg("-o")
            .arg(output)
            .args(&self.libraries)
            .args(pkg_config("--libs", self.libpiste))
            .arg("-lpthread")
            .arg("-ldl");
        process::run(&mut command)
    }

    /// Compiles only, to nothing; what the compiler says is the result.
    pub fn try_compile(&self) -> Finished {
        process::run(self.command().args(["-c", "-o", "/dev/null"]))
    }

    /// Only looks at the source; what the compiler says is the result.
    pub fn try_check(&self) -> Finished {
        process::run(self.command().arg("-fsyntax-only"))
    }

    /// Compiles and links; of a test program, copies what another test has linked. Each test has its own file: probes are put into
    /// files.
    ///
    /// # Panics
    /// The compiler complained.
    pub fn link(&self, output: &Path) {
        let kept = env::var_os("PISTE_TEST_PROGRAMS").map(PathBuf::from);
        // A test may write a source anew, elsewhere.
        let is_kept =
            |source: &PathBuf| source.starts_with(programs()) || source.starts_with(repository().join("runtime"));
        let kept = kept.filter(|_| self.sources.iter().all(is_kept));
        let Some(folder) = kept else {
            self.try_link(output).expect_silent_success();
            return;
        };
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        let kept = folder.join(format!("{:016x}", hasher.finish()));
        if !kept.exists() {
            // Several tests may do so at once.
            let own = tempfile::tempdir_in(&folder).expect("a folder can be made there");
            let linked = own.path().join("program");
            self.try_link(&linked).expect_silent_success();
            fs::rename(&linked, &kept).expect("it can be named");
        }
        // Not by this process: a child that another thread starts meanwhile would have the file open for writing, and nobody could execute it.
        // What is there may run.
        process::run(Command::new("cp").arg("--remove-destination").arg(&kept).arg(output)).expect_silent_success();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.compiler);
        command
            .args(pkg_config("--cflags", self.libpiste))
            .args(&self.arguments)
            .args(&self.sources)
            .env("LC_ALL", "C");
        command
    }
}

/// Lets a command that compiles programs by itself, such as `piste bench`, do so once.
pub fn compile_once(command: &mut Command) -> &mut Command {
    if env::var_os("PISTE_TEST_PROGRAMS").is_some() && env::var_os("CC").is_none() {
        command.env("CC", repository().join("tests/support/kept-cc"));
    }
    command
}

fn pkg_config(what: &str, libpiste: Libpiste) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    match libpiste {
        Libpiste::Shared => {}
        Libpiste::Static => _ = command.arg("--static"),
        Libpiste::Inside => return vec![],
    }
    command
        .args([what, "piste"])
        .env("PKG_CONFIG_PATH", build().join("lib/pkgconfig"));
    let finished = process::run(&mut command);
    finished.expect_silent_success();
    finished.stdout.split_whitespace().map(str::to_owned).collect()
}
