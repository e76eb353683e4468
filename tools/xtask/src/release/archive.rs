//! Writes archives whose bytes depend on nothing but the names, modes and contents of their files, and one given time.

use std::io::{Cursor, Write};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use zip::write::SimpleFileOptions;

/// A file of an archive.
pub struct File {
    pub name: String,
    /// Permissions, such as `0o755`.
    pub mode: u32,
    pub content: Vec<u8>,
}

/// Returns a zip of the files, by name. Each has the earliest time that a zip can hold, 1980-01-01: times in zips have no
/// time zone, and Lambda does not look at them.
pub fn zip(files: Vec<File>) -> anyhow::Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for file in by_name(files) {
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(file.mode);
        let added = archive.start_file(&file.name, options);
        added.with_context(|| format!("add `{}` to a zip", file.name))?;
        archive.write_all(&file.content)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Returns a tar of the files, by name, compressed with gzip. Each belongs to the user 0 and has this time, in seconds since
/// 1970.
pub fn tar_gz(files: Vec<File>, time_secs: u64) -> anyhow::Result<Vec<u8>> {
    // Without a time and a file name of its own.
    let gzip = GzEncoder::new(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for file in by_name(files) {
        let mut header = tar::Header::new_ustar();
        header.set_size(file.content.len() as u64);
        header.set_mode(file.mode);
        header.set_mtime(time_secs);
        header.set_uid(0);
        header.set_gid(0);
        let added = archive.append_data(&mut header, &file.name, file.content.as_slice());
        added.with_context(|| format!("add `{}` to a tar", file.name))?;
    }
    Ok(archive.into_inner()?.finish()?)
}

fn by_name(mut files: Vec<File>) -> Vec<File> {
    files.sort_by(|one, other| one.name.cmp(&other.name));
    files
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn file(name: &str, mode: u32, content: &[u8]) -> File {
        File {
            name: name.to_owned(),
            mode,
            content: content.to_owned(),
        }
    }

    fn files() -> Vec<File> {
        vec![
            file("second", 0o644, b"text"),
            file("first", 0o755, &[7; 100_000]),
        ]
    }

    fn reversed() -> Vec<File> {
        files().into_iter().rev().collect()
    }

    #[test]
    fn a_zip_has_its_files_by_name_with_modes_and_a_fixed_time() {
        let bytes = zip(files()).unwrap();
        assert_eq!(bytes, zip(reversed()).unwrap());
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut found = Vec::new();
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).unwrap();
            assert_eq!(entry.last_modified(), Some(zip::DateTime::default()));
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let mode = entry.unix_mode().unwrap() & 0o777;
            let name = entry.name().unwrap().into_owned();
            found.push((name, mode, content.len()));
        }
        let expected = [
            ("first".to_owned(), 0o755, 100_000),
            ("second".to_owned(), 0o644, 4),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tar_has_its_files_by_name_with_modes_of_user_0_at_the_given_time() {
        let bytes = tar_gz(files(), 1_700_000_000).unwrap();
        assert_eq!(bytes, tar_gz(reversed(), 1_700_000_000).unwrap());
        // The time in the header of gzip, which would be that of the run.
        assert_eq!(bytes[4..8], [0; 4]);
        let mut archive = tar::Archive::new(GzDecoder::new(bytes.as_slice()));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            let name = entry.path().unwrap().display().to_string();
            found.push((name, header.mode().unwrap(), header.size().unwrap()));
        }
        let expected = [
            ("first".to_owned(), 0o755, 100_000),
            ("second".to_owned(), 0o644, 4),
        ];
        assert_eq!(found, expected);
    }
}
