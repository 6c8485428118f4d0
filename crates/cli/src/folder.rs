// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder that a trace is written to: a new one, or one that is empty. Nothing that exists is ever written over.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use piste_reason::reason;
use piste_trace::privacy;

use crate::failure::{Failure, USAGE};

/// A folder for a trace.
pub(crate) struct TraceFolder {
    /// Absolute. Text, because the control interface's messages are JSON.
    path: String,
    made_here: bool,
}

impl TraceFolder {
    /// The folder that the user chose; otherwise a new one here, named after the time.
    pub(crate) fn of_output(output: Option<&Path>) -> Result<TraceFolder, Failure> {
        match output {
            Some(path) => TraceFolder::chosen(path),
            None => TraceFolder::named_by_time(Path::new("."), &now()),
        }
    }

    /// The folder that the user chose, made if it is missing.
    fn chosen(path: &Path) -> Result<TraceFolder, Failure> {
        refuse_url(path)?;
        let failed = |error: io::Error| Failure::new(format!("cannot record to {path:?}: {}", reason(&error)));
        let absolute = text(std::path::absolute(path).map_err(failed)?)?;
        if let Some(parent) = Path::new(&absolute).parent() {
            privacy::folder().recursive(true).create(parent).map_err(failed)?;
        }
        match privacy::folder().create(&absolute) {
            Ok(()) => Ok(TraceFolder {
                path: absolute,
                made_here: true,
            }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let sentence = match fs::read_dir(&absolute).map(|mut entries| entries.next().is_none()) {
                    Ok(true) => {
                        return Ok(TraceFolder {
                            path: absolute,
                            made_here: false,
                        });
                    }
                    Ok(false) => {
                        "exists and is not empty; choose a new folder, because existing files are never overwritten"
                    }
                    Err(error) if error.kind() == ErrorKind::NotADirectory => "is a file; choose a new folder",
                    Err(error) => return Err(failed(error)),
                };
                Err(Failure::new(format!("cannot record to {path:?}: it {sentence}")))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// A new folder in `parent`, named after the time.
    fn named_by_time(parent: &Path, time: &str) -> Result<TraceFolder, Failure> {
        let failed = |error: io::Error| {
            Failure::new(format!(
                "cannot record to {parent:?}: {}; choose a folder with -o",
                reason(&error)
            ))
        };
        let parent = std::path::absolute(parent).map_err(failed)?;
        // Making the folder claims its name: two recordings of one second do not meet.
        for attempt in 1.. {
            let suffix = if attempt == 1 {
                String::new()
            } else {
                format!("-{attempt}")
            };
            let path = text(parent.join(format!("piste-{time}{suffix}")))?;
            match privacy::folder().create(&path) {
                Ok(()) => return Ok(TraceFolder { path, made_here: true }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(error) => return Err(failed(error)),
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Removes the folder, if it was made here, with what pisted has begun in it.
    pub(crate) fn abandon(self) {
        if self.made_here {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Other tracers send traces to places on a network, written like this; as a path it would be a folder of that name.
pub(crate) fn refuse_url(path: &Path) -> Result<(), Failure> {
    let text = path.to_string_lossy();
    let is_name = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    match text.split_once("://") {
        Some((scheme, _)) if is_name(scheme) => Err(Failure::with_status(
            format!("cannot record to {path:?}: it is a URL; give the path of a folder on this machine"),
            USAGE,
        )),
        _ => Ok(()),
    }
}

/// The snapshot that was written last to the folder of a session, if one was: `snapshot-2-20260102-030405`.
pub(crate) fn newest_snapshot(session: &Path) -> Option<String> {
    let number = |name: &str| name.strip_prefix("snapshot-")?.split('-').next()?.parse::<u64>().ok();
    let names = fs::read_dir(session).ok()?.flatten().map(|entry| entry.file_name());
    let snapshots = names.filter_map(|name| Some((number(name.to_str()?)?, name)));
    let (_, newest) = snapshots.max()?;
    session.join(newest).into_os_string().into_string().ok()
}

/// Now, in this computer's time zone: `20260102-030405`.
fn now() -> String {
    jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()
}

fn text(path: PathBuf) -> Result<String, Failure> {
    path.into_os_string().into_string().map_err(|path| {
        Failure::new(format!(
            "cannot record to {path:?}: the path is not UTF-8; choose another folder with -o"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        match TraceFolder::chosen(path) {
            Err(Failure::Told { sentence, .. }) => sentence,
            _ => panic!("{path:?} was accepted"),
        }
    }

    #[test]
    fn only_a_new_or_an_empty_folder_is_taken() {
        let scratch = tempfile::tempdir().unwrap();
        let new = scratch.path().join("a/b");
        assert!(TraceFolder::chosen(&new).unwrap().made_here);
        assert!(!TraceFolder::chosen(&new).unwrap().made_here);

        fs::write(new.join("file"), "kept").unwrap();
        assert!(refusal(&new).contains("is not empty"));
        assert!(refusal(&new.join("file")).contains("is a file"));
        assert_eq!(fs::read_to_string(new.join("file")).unwrap(), "kept");
    }

    #[test]
    fn a_place_on_a_network_is_not_taken_for_a_folder() {
        for url in ["net://host", "tcp4://10.0.0.1:5342/x", "file:///tmp/trace"] {
            assert!(refusal(Path::new(url)).contains("it is a URL"), "{url}");
        }
        for path in ["/tmp/a://b", "://", "4://x", "a b://c", "net:/host", "."] {
            assert!(refuse_url(Path::new(path)).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let scratch = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..3)
            .map(|_| TraceFolder::named_by_time(scratch.path(), "20260102-030405").unwrap())
            .map(|folder| folder.path().rsplit('/').next().unwrap().to_owned())
            .collect();
        assert_eq!(
            names,
            [
                "piste-20260102-030405",
                "piste-20260102-030405-2",
                "piste-20260102-030405-3"
            ]
        );
    }

    #[test]
    fn the_newest_snapshot_has_the_highest_number() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(newest_snapshot(scratch.path()), None);
        for name in [
            "snapshot-9-20260102-030406",
            "snapshot-10-20260102-030405",
            "snapshots",
            "user",
        ] {
            fs::create_dir(scratch.path().join(name)).unwrap();
        }
        let newest = newest_snapshot(scratch.path()).unwrap();
        assert!(newest.ends_with("/snapshot-10-20260102-030405"), "{newest}");
    }

    #[test]
    fn an_abandoned_folder_goes_only_if_it_was_made_here() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("trace");
        let folder = TraceFolder::chosen(&path).unwrap();
        fs::write(path.join("metadata"), "").unwrap();
        folder.abandon();
        assert!(!path.exists());

        fs::create_dir(&path).unwrap();
        TraceFolder::chosen(&path).unwrap().abandon();
        assert!(path.exists());
    }
}
