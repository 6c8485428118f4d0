// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes on times of a trace, in a file of the trace's folder (docs/reference/web-server.md describes it).
//!
//! A page replaces all notes at once, and names the version that it has seen. If the file has another one by then, because somebody else has
//! written it, the request is refused and nothing is lost. The file is replaced, never changed, so it is whole at any time.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::path::Path as FilePath;
use std::thread;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use piste_reason::reason;
use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::pages::{Asked, Json, Refusal, ns};
use crate::recordings::open_file;

/// In the folder of the trace.
const NAME: &str = ".piste-notes.json";
const FORMAT: u32 = 1;
const FILE_BYTES_MAX: u64 = 1 << 20;
const NOTES_MAX: usize = 1000;
const TEXT_BYTES_MAX: usize = 4000;
const LANE_BYTES_MAX: usize = 300;
/// Another server writes the file for a moment only.
const LOCK_TRIES: u32 = 40;
const LOCK_REST: Duration = Duration::from_millis(25);

/// A note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// In nanoseconds since 1970, as text.
    begin_ns: String,
    /// The same as `begin_ns`: it is about a moment.
    end_ns: String,
    text: String,
    /// The lane that it is about, in the words of the viewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lane: Option<String>,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    piste_notes: u32,
    notes: Vec<Note>,
}

/// What a page is told.
#[derive(Serialize)]
pub(crate) struct Told {
    /// Another one whenever the file has other bytes.
    version: String,
    notes: Vec<Note>,
    /// Why there can be no new ones.
    unwritable: Option<String>,
}

/// What a page asks for.
#[derive(Deserialize)]
struct Wanted {
    /// Which notes the page has seen.
    version: String,
    notes: Vec<Note>,
}

/// `GET /api/N/notes`
pub(crate) async fn read(State(house): Asked, Path(number): Path<usize>) -> Result<Json<Told>, Refusal> {
    let folder = house.recording(number)?.path.clone();
    apart(move || told(&folder)).await
}

/// `POST /api/N/notes`, with `{"version": "...", "notes": [...]}` as the body.
pub(crate) async fn replace(
    State(house): Asked,
    Path(number): Path<usize>,
    body: Bytes,
) -> Result<Json<Told>, Refusal> {
    let folder = house.recording(number)?.path.clone();
    let wrong = |why: String| Refusal(StatusCode::BAD_REQUEST, why);
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
    check(&wanted.notes).map_err(wrong)?;
    apart(move || {
        write(&folder, &wanted)?;
        told(&folder)
    })
    .await
}

/// Other answers need not wait for a disk.
async fn apart(ask: impl FnOnce() -> Result<Told, String> + Send + 'static) -> Result<Json<Told>, Refusal> {
    let failed = |why: String| Refusal(StatusCode::CONFLICT, why);
    let done = tokio::task::spawn_blocking(ask).await;
    let told = done.map_err(|error| failed(error.to_string()))?;
    told.map(Json).map_err(failed)
}

fn check(notes: &[Note]) -> Result<(), String> {
    if notes.len() > NOTES_MAX {
        return Err(format!("a trace can have at most {NOTES_MAX} notes"));
    }
    for note in notes {
        let time = |text: &str| ns(text).map_err(|Refusal(_, why)| why);
        if time(&note.begin_ns)? > time(&note.end_ns)? {
            return Err("a note ends before it begins".to_owned());
        }
        if note.text.trim().is_empty() {
            return Err("the text of a note must not be empty".to_owned());
        }
        if note.text.len() > TEXT_BYTES_MAX {
            return Err(format!("the text of a note can have at most {TEXT_BYTES_MAX} bytes"));
        }
        if note.lane.as_ref().is_some_and(|lane| lane.len() > LANE_BYTES_MAX) {
            return Err("the lane name of a note is too long".to_owned());
        }
    }
    Ok(())
}

fn told(folder: &FilePath) -> Result<Told, String> {
    let bytes = kept_bytes(folder)?;
    Ok(Told {
        version: version(bytes.as_deref()),
        notes: notes(bytes.as_deref())?,
        unwritable: writable(folder).err(),
    })
}

/// `Err`: why no notes can be written.
fn writable(folder: &FilePath) -> Result<(), String> {
    let is_writable = access(folder, Access::WRITE_OK | Access::EXEC_OK);
    is_writable.map_err(|error| cannot_write(folder, &error.into()))
}

/// The bytes of the file; `None`: there is none.
fn kept_bytes(folder: &FilePath) -> Result<Option<Vec<u8>>, String> {
    let place = folder.join(NAME);
    let unreadable = |why: &str| format!("cannot read the notes in {}: {why}", place.display());
    match fs::symlink_metadata(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&reason(&error))),
        Ok(_) => {}
    }
    let file =
        open_file(&place).ok_or_else(|| unreadable("it is not a regular file, or you are not allowed to read it"))?;
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(&reason(&error)))?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(unreadable("it is larger than 1 MiB")),
        false => Ok(Some(bytes)),
    }
}

/// The notes in the file. One that is not understood stays as it is: it may be of a newer Piste.
fn notes(bytes: Option<&[u8]>) -> Result<Vec<Note>, String> {
    let Some(bytes) = bytes else {
        return Ok(Vec::new());
    };
    let foreign =
        |why: String| format!("this version of Piste cannot read the file {NAME} in the trace's folder: {why}");
    let kept: Kept = serde_json::from_slice(bytes).map_err(|error| foreign(error.to_string()))?;
    if kept.piste_notes != FORMAT {
        return Err(foreign(format!("it has format {}", kept.piste_notes)));
    }
    check(&kept.notes).map_err(foreign)?;
    Ok(kept.notes)
}

fn version(bytes: Option<&[u8]>) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes.unwrap_or_default());
    format!("{:016x}", hasher.finish())
}

fn write(folder: &FilePath, wanted: &Wanted) -> Result<(), String> {
    let unwritten = |error: io::Error| cannot_write(folder, &error);
    writable(folder)?;
    let _lock = lock(folder)?;
    let before = kept_bytes(folder)?;
    notes(before.as_deref())?;
    if version(before.as_deref()) != wanted.version {
        return Err("the notes were changed in another window in the meantime, so nothing was saved".to_owned());
    }
    let kept = Kept {
        piste_notes: FORMAT,
        notes: wanted.notes.clone(),
    };
    let mut bytes = serde_json::to_vec_pretty(&kept).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("the notes are larger than 1 MiB in total".to_owned());
    }
    // Only its owner can read it, as the timeline.
    let draft = tempfile::Builder::new().prefix(".piste-notes-").tempfile_in(folder);
    let mut draft = draft.map_err(unwritten)?;
    draft.write_all(&bytes).map_err(unwritten)?;
    draft.as_file().sync_data().map_err(unwritten)?;
    draft
        .persist(folder.join(NAME))
        .map_err(|error| unwritten(error.error))?;
    Ok(())
}

/// Keeps other servers from writing, for as long as it is there. File systems without locks do without it.
fn lock(folder: &FilePath) -> Result<File, String> {
    let file = File::open(folder).map_err(|error| cannot_write(folder, &error))?;
    for _ in 0..LOCK_TRIES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => thread::sleep(LOCK_REST),
            _ => return Ok(file),
        }
    }
    Err("another program is writing the notes; try again".to_owned())
}

fn cannot_write(folder: &FilePath, error: &io::Error) -> String {
    format!("cannot write notes to {}: {}", folder.display(), reason(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Note {
        Note {
            begin_ns: "5".to_owned(),
            end_ns: "7".to_owned(),
            text: text.to_owned(),
            lane: Some("cpu 0".to_owned()),
        }
    }

    fn wanted(version: &str, texts: &[&str]) -> Wanted {
        Wanted {
            version: version.to_owned(),
            notes: texts.iter().map(|text| note(text)).collect(),
        }
    }

    #[test]
    fn notes_are_kept_and_a_page_that_has_seen_others_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = told(folder.path()).expect("no notes");
        assert!(empty.notes.is_empty() && empty.unwritable.is_none());
        write(folder.path(), &wanted(&empty.version, &["one"])).expect("it is written");
        let first = told(folder.path()).expect("notes");
        assert_eq!(first.notes, [note("one")]);
        // A second page has seen no notes.
        let said = write(folder.path(), &wanted(&empty.version, &["two"])).expect_err("it has changed");
        assert!(said.contains("changed in another window"), "{said}");
        assert_eq!(told(folder.path()).expect("notes").notes, [note("one")]);
        write(folder.path(), &wanted(&first.version, &["one", "two"])).expect("it is written");
        assert_eq!(told(folder.path()).expect("notes").notes.len(), 2);
        let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_file_that_is_not_understood_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join(NAME);
        let long = format!("{{\"piste_notes\":1,\"notes\":[]}}{}", " ".repeat(1 << 20));
        for text in ["", "{}", "{\"piste_notes\":2,\"notes\":[]}", "[", &long] {
            fs::write(&place, text).expect("it can be written");
            assert!(told(folder.path()).is_err(), "{text}");
            let asked = wanted(&version(Some(text.as_bytes())), &["one"]);
            assert!(write(folder.path(), &asked).is_err(), "{text}");
            assert_eq!(fs::read_to_string(&place).expect("it is there"), text);
        }
        // A link does not lead out of the folder.
        fs::remove_file(&place).expect("it is there");
        std::os::unix::fs::symlink("/etc/hostname", &place).expect("a link");
        assert!(told(folder.path()).is_err());
    }

    #[test]
    fn notes_are_bounded() {
        assert!(check(&vec![note("one"); NOTES_MAX]).is_ok());
        assert!(check(&vec![note("one"); NOTES_MAX + 1]).is_err());
        assert!(check(&[note(" ")]).is_err());
        assert!(check(&[note(&"x".repeat(TEXT_BYTES_MAX + 1))]).is_err());
        let late = Note {
            begin_ns: "8".to_owned(),
            ..note("one")
        };
        assert!(check(&[late]).is_err());
    }
}
