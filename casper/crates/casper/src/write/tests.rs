// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::os::unix::fs::PermissionsExt;

use zerocopy::FromBytes;

use super::*;

fn chunks_of(bytes: &[u8]) -> Vec<(casper_chunk, Vec<u8>)> {
    let mut rest = &bytes[FILE_BYTES..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (chunk, after) = casper_chunk::read_from_prefix(rest).unwrap();
        assert_eq!(chunk.magic, CASPER_CHUNK_MAGIC);
        let payload = after[..chunk.size as usize].to_vec();
        assert_eq!(chunk.crc, chunk_crc(&chunk, &payload));
        rest = &after[padded(chunk.size as usize)..];
        found.push((chunk, payload));
    }
    found
}

#[test]
fn what_is_written_is_there_with_good_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut writer = TraceWriter::create(&path, &new_header()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let of = DataChunk { stream: 3, events: 1, base_ticks: 9, ..DataChunk::default() };
    writer.data(&of, &[1; 13]).unwrap();
    writer.data(&of, &[]).unwrap();
    writer.header_mut().stored_events = 7;
    writer.finish(&[casper_total::new_zeroed(); 2]).unwrap();

    let bytes = std::fs::read(&path).unwrap();
    let (header, _) = casper_file::read_from_prefix(&bytes).unwrap();
    assert_eq!((header.stored_events, header.finished), (7, 1));
    assert_eq!(header.crc, header_crc(&header));
    let chunks = chunks_of(&bytes);
    assert_eq!(chunks.iter().map(|(chunk, _)| chunk.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(chunks[0].1, [1; 13]);
    assert_eq!(chunks[2].0.kind, CASPER_CHUNK_END);
}

#[test]
fn metadata_is_cut_between_entries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut writer = TraceWriter::create(&path, &new_header()).unwrap();
    let size = 1 << 20;
    let mut list = Vec::new();
    for number in 0..33 {
        let head = casper_meta { size, kind: 1, committed: 1, process: number, length: size - 16 };
        list.extend_from_slice(head.as_bytes());
        list.resize(list.len() + size as usize - 16, 0);
    }
    writer.meta(&list).unwrap();
    drop(writer);
    let chunks = chunks_of(&std::fs::read(&path).unwrap());
    assert_eq!(
        chunks.iter().map(|(_, payload)| payload.len() >> 20).collect::<Vec<_>>(),
        [16, 16, 1]
    );
}

#[test]
fn what_is_there_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "something").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let links = [("link", file.as_path()), ("dangling", Path::new("nowhere"))];
    for (name, to) in links {
        std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
    }
    let names = ["file", "link", "dangling"].map(|name| folder.path().join(name));
    for path in names.into_iter().chain(["/dev/null".into(), "/nowhere/trace".into()]) {
        let error = TraceWriter::create(&path, &new_header()).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"something");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn too_large_a_chunk_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut writer = TraceWriter::create(&path, &new_header()).unwrap();
    let payload = vec![0; CASPER_CHUNK_MAX as usize + 1];
    assert!(writer.data(&DataChunk::default(), &payload).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), FILE_BYTES as u64);
}

/// A child with a limit on the size of files, since the limit is the process's.
#[test]
fn a_write_that_fails_leaves_whole_chunks() {
    if let Ok(path) = std::env::var("CASPER_TEST_LIMITED") {
        let limit = rustix::process::Rlimit { current: Some(10_000), maximum: Some(10_000) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        let mut writer = TraceWriter::create(Path::new(&path), &new_header()).unwrap();
        writer.data(&DataChunk::default(), &[1; 4000]).unwrap();
        let error = writer.data(&DataChunk::default(), &[2; 4000]).unwrap_err();
        assert!(error.is_full(), "{error}");
        writer.header_mut().disk_lost_events = 1;
        writer.data(&DataChunk { stream: 9, ..DataChunk::default() }, &[3; 800]).unwrap();
        return writer.finish(&[]).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    // SIGXFSZ, ignored, is inherited: without that the write would end the program.
    let out = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact write::tests::a_write_that_fails_leaves_whole_chunks"])
        .arg(std::env::current_exe().unwrap())
        .env("CASPER_TEST_LIMITED", &path)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let bytes = std::fs::read(&path).unwrap();
    let (header, _) = casper_file::read_from_prefix(&bytes).unwrap();
    assert_eq!((header.disk_lost_events, header.finished), (1, 1));
    let chunks = chunks_of(&bytes);
    assert_eq!(chunks.len(), 3, "the first, the one after the failure, the end");
    assert_eq!((chunks[1].0.stream, chunks[1].0.sequence), (9, 1));
}
