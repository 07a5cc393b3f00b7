//! The same transaction as the server sends it while it is in progress.

use super::*;

const XID: u32 = 700;
/// Of a sub-transaction.
const SUB: u32 = 701;
const OTHER: u32 = 900;

fn start(xid: u32, first: bool) -> Vec<u8> {
    [b"S", &xid.to_be_bytes()[..], &[u8::from(first)]].concat()
}

fn stop() -> Vec<u8> {
    b"E".to_vec()
}

fn abort(xid: u32, sub_xid: u32) -> Vec<u8> {
    [b"A", &xid.to_be_bytes()[..], &sub_xid.to_be_bytes()].concat()
}

/// From the Commit of the whole transaction.
fn commit(xid: u32, whole: &[u8]) -> Vec<u8> {
    assert_eq!(whole[0], b'C');
    [b"c", &xid.to_be_bytes()[..], &whole[1..]].concat()
}

/// A message as it is within a segment.
fn within(xid: u32, message: &[u8]) -> Vec<u8> {
    [&message[..1], &xid.to_be_bytes()[..], &message[1..]].concat()
}

/// The messages between Begin and Commit, in segments of so many, each followed by what `between` gives.
fn segments(xid: u32, messages: &[Vec<u8>], size: usize, between: impl Fn() -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    for (number, segment) in messages[1..messages.len() - 1].chunks(size).enumerate() {
        sent.push(start(xid, number == 0));
        sent.extend(segment.iter().map(|message| within(xid, message)));
        sent.push(stop());
        sent.extend(between());
    }
    sent
}

fn last(messages: &[Vec<u8>]) -> &[u8] {
    messages.last().unwrap()
}

/// What the sink was told, table by table, and when the transactions ended.
type Told = (Vec<Vec<(RowOp, String, String)>>, Vec<(u64, i64)>);

fn told(messages: &[Vec<u8>], tables: &[SourceTable]) -> Told {
    let mut sink = Sink::new(tables);
    decode(messages, tables, &mut sink).unwrap();
    assert_eq!(sink.stops, []);
    ((0..tables.len()).map(|table| sink.changes(table)).collect(), sink.committed)
}

fn refusal(messages: &[Vec<u8>]) -> calve_core::Error {
    let tables = tables();
    decode(messages, &tables, &mut Sink::new(&tables)).unwrap_err()
}

#[test]
fn segments_give_what_the_whole_transaction_gives() {
    for capture in [TEXT, BINARY] {
        let whole = messages(capture);
        let expected = told(&whole, &tables());
        assert!(expected.0.iter().all(|changes| changes.len() > 3));
        for size in [1, 3, 100] {
            // Another transaction in progress takes turns with it, and is aborted in the end.
            let began = std::cell::Cell::new(false);
            let other = || {
                let mut turn = vec![start(OTHER, !began.replace(true))];
                turn.extend(whole[1..4].iter().map(|message| within(OTHER, message)));
                turn.push(stop());
                turn
            };
            let mut sent = segments(XID, &whole, size, other);
            sent.push(commit(XID, last(&whole)));
            sent.push(abort(OTHER, OTHER));
            assert_eq!(told(&sent, &tables()), expected, "in segments of {size}");
            // What is known of relations by then serves the transactions that follow.
            let rows = whole.iter().filter(|message| message[0] != b'R' && message[0] != b'Y').cloned();
            sent.extend(rows);
            let twice = told(&sent, &tables());
            assert_eq!(twice.0.iter().map(Vec::len).collect::<Vec<_>>(), [12, 8], "in segments of {size}");
        }
    }
}

#[test]
fn what_is_aborted_is_not_seen() {
    let whole = messages(TEXT);
    let expected = told(&whole, &tables());
    for repeat in [1, 3] {
        let mut sent = vec![start(XID, true)];
        for message in &whole[1..whole.len() - 1] {
            // In the sub-transaction the table looks different: neither rows nor descriptions of it count.
            let gone = match message[0] {
                b'R' => {
                    let at = message.windows(4).position(|name| name == b"name" || name == b"big\0").unwrap();
                    let mut altered = message.clone();
                    altered[at] = b'X';
                    altered
                }
                _ => message.clone(),
            };
            for _ in 0..repeat {
                sent.push(within(SUB, &gone));
            }
            sent.push(within(XID, message));
        }
        sent.extend([stop(), abort(XID, SUB), start(XID, false)]);
        // Without an abort of its own it counts.
        sent.extend([within(SUB + 1, &whole[2]), stop(), abort(XID, SUB + 7)]);
        sent.push(commit(XID, last(&whole)));
        assert_eq!(told(&sent, &tables()), expected);
    }
    let mut sent = segments(XID, &whole, 4, Vec::new);
    sent.push(abort(XID, XID));
    let (changes, commits) = told(&sent, &tables());
    assert!(changes.iter().all(Vec::is_empty) && commits.is_empty(), "{changes:?}");
    // Its number may come again.
    sent.extend(segments(XID, &whole, 4, Vec::new));
    sent.push(commit(XID, last(&whole)));
    assert_eq!(told(&sent, &tables()), expected);
}

#[test]
fn rows_of_relations_that_are_not_followed_are_passed_over() {
    let whole = messages(TEXT);
    let followed = &tables()[1..];
    let expected = told(&whole, followed);
    let mut sent = segments(XID, &whole, 2, Vec::new);
    sent.push(commit(XID, last(&whole)));
    // They are known all the same: the server does not describe them again.
    sent.extend(whole.iter().filter(|message| message[0] != b'R').cloned());
    let (changes, commits) = told(&sent, followed);
    assert_eq!((changes[0].len(), commits.len()), (2 * expected.0[0].len(), 2));
}

#[test]
fn messages_out_of_turn_are_errors() {
    let all = messages(TEXT);
    let (begin, row, end) = (all[0].clone(), all[3].clone(), last(&all).to_vec());
    let row_within = within(XID, &row);
    for order in [
        vec![stop()],
        vec![start(XID, false)],
        vec![start(XID, true), stop(), start(XID, true)],
        vec![start(XID, true), start(OTHER, true)],
        vec![start(XID, true), commit(XID, &end)],
        vec![start(XID, true), abort(XID, XID)],
        vec![start(XID, true), begin.clone()],
        vec![start(XID, true), within(XID, &begin)],
        vec![start(XID, true), within(XID, &end)],
        vec![start(XID, true), within(XID, &start(OTHER, true))],
        vec![start(XID, true), within(XID, b"?")],
        vec![begin.clone(), start(XID, true)],
        vec![begin.clone(), abort(XID, XID)],
        vec![begin, start(XID, true), stop(), commit(XID, &end)],
        vec![commit(XID, &end)],
        vec![start(XID, true), stop(), abort(XID, XID), commit(XID, &end)],
        vec![start(XID, true), stop(), row_within.clone()],
        // A row whose relation was described in an aborted sub-transaction only.
        vec![start(XID, true), within(SUB, &all[2]), row_within, stop(), abort(XID, SUB), commit(XID, &end)],
    ] {
        let error = refusal(&order);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    // Nothing is held of it, so nothing is lost.
    assert_eq!(told(&[abort(XID, XID), abort(XID, SUB)], &tables()).1, []);
}

#[test]
fn messages_cut_short_too_long_or_damaged_are_errors_and_never_panic() {
    for capture in [TEXT, BINARY] {
        let whole = messages(capture);
        let mut sent = segments(XID, &whole, 5, Vec::new);
        sent.extend([abort(XID, SUB), commit(XID, last(&whole))]);
        let rest = sent.len();
        for at in 0..rest {
            let length = sent[at].len();
            for cut in (0..length).filter(|cut| length < 200 || cut % 97 == 0).chain([length + 1]) {
                let mut damaged = sent.clone();
                damaged[at].resize(cut, 0);
                let tables = tables();
                let outcome = decode(&damaged, &tables, &mut Sink::new(&tables));
                // The old row of a delete is read as far as its key only.
                let tolerated = sent[at][0] == b'D' && cut > length;
                assert!(outcome.is_err() || tolerated, "message {at} of {length} bytes, cut to {cut}");
            }
        }
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..2_000 {
            let mut damaged = sent.clone();
            let message = random(rest);
            let length = damaged[message].len();
            let within = if random(2) == 0 { length.min(80) } else { length };
            damaged[message][random(within)] = u8::try_from(random(256)).unwrap();
            let tables = tables();
            match decode(&damaged, &tables, &mut Sink::new(&tables)) {
                Ok(()) => accepted += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    refused += 1;
                }
            }
        }
        assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused: the damage is one-sided");
    }
}

#[test]
fn a_directory_without_room_is_named() {
    let whole = messages(TEXT);
    let tables = tables();
    let mut decoder = Decoder::new(&tables, false, Spools::new("/nonexistent/spools"), ValueRules::default());
    let mut sink = Sink::new(&tables);
    let mut send = |message: &[u8]| decoder.message(message, &mut sink).map(drop);
    send(&start(XID, true)).unwrap();
    send(&within(XID, &whole[2])).unwrap();
    let row = within(XID, &whole[3]);
    let error = (0..10_000).find_map(|_| send(&row).err()).expect("memory does for a few megabytes only");
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("/nonexistent/spools") && error.to_string().contains("spill_dir"), "{error}");
}
