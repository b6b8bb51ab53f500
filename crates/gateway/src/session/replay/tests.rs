use super::*;

fn streams() -> ReplayBuffers {
    ReplayBuffers::new(replay_budget(64 << 20)).expect("randomness")
}

fn begun(streams: &ReplayBuffers) -> u64 {
    streams.begin_stream(mpsc::channel(1).0)
}

/// The id of an event.
fn id(event: &Bytes) -> String {
    let text = str::from_utf8(event).expect("text");
    text.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned()
}

fn missed(streams: &ReplayBuffers, id: &str) -> Option<Vec<Bytes>> {
    streams.find_missed_events(streams.parse_event_id(id)?)
}

#[test]
fn what_was_missed_is_of_that_stream_and_behind_that_event() {
    let streams = streams();
    let (one, other) = (begun(&streams), begun(&streams));
    let first = streams.priming_event(one);
    let events = ["a", "b", "c"].map(|text| streams.append_event(one, text));
    let foreign = streams.append_event(other, "x");
    let ids: std::collections::HashSet<String> = events.iter().chain([&first, &foreign]).map(id).collect();
    assert_eq!(ids.len(), 5, "no id twice in a session");
    assert_eq!(missed(&streams, &id(&first)).expect("known"), events);
    assert_eq!(missed(&streams, &id(&events[1])).expect("known"), events[2..]);
    assert_eq!(missed(&streams, &id(&events[2])).expect("known"), Vec::<Bytes>::new());
    assert_eq!(missed(&streams, &id(&foreign)).expect("known"), Vec::<Bytes>::new());
}

#[test]
fn ids_of_others_and_of_what_never_was_are_not_known() {
    let (own, other) = (streams(), streams());
    let (mine, theirs) = (begun(&own), begun(&other));
    own.append_event(mine, "mine");
    let foreign = other.append_event(theirs, "theirs");
    assert_eq!(missed(&own, &id(&foreign)), None);
    let tag = own.session_tag.clone();
    for odd in [
        "",
        "1",
        "x-1-1",
        &format!("{tag}-1-9"),
        &format!("{tag}-7-0"),
        &format!("{tag}-1-0-1"),
        &format!("{tag}-1--1"),
    ] {
        assert_eq!(missed(&own, odd), None, "{odd}");
    }
}

#[test]
fn what_is_kept_has_bounds_and_what_is_lost_is_not_passed_over() {
    let streams = streams();
    let stream = begun(&streams);
    let events: Vec<Bytes> = (0..MAX_REPLAY_EVENTS + 2).map(|_| streams.append_event(stream, "x")).collect();
    assert_eq!(missed(&streams, &id(&events[0])), None, "the one behind it is gone");
    assert_eq!(missed(&streams, &id(&events[1])).map(|missed| missed.len()), Some(MAX_REPLAY_EVENTS));
    let large = "x".repeat(MAX_SESSION_REPLAY_BYTES / 2);
    let events = [1, 2, 3, 4].map(|_| streams.append_event(stream, &large));
    assert_eq!(missed(&streams, &id(&events[0])), None);
    assert_eq!(missed(&streams, &id(&events[1])).map(|missed| missed.len()), Some(2));
    let huge = streams.append_event(stream, &"x".repeat(MAX_SESSION_REPLAY_BYTES * 2));
    assert_eq!(missed(&streams, &id(&events[3])), Some(vec![huge]), "the latest is kept, however large");
    streams.append_event(stream, "small");
    assert_eq!(missed(&streams, &id(&events[3])), None, "and goes when it is not the latest any more");
}

#[test]
fn all_sessions_share_one_room() {
    let room = replay_budget(8 << 10);
    let [one, other] = [1, 2].map(|_| ReplayBuffers::new(Arc::clone(&room)).expect("randomness"));
    let (first, second) = (begun(&one), begun(&other));
    let text = "x".repeat(6 << 10);
    let place = id(&one.priming_event(first));
    one.append_event(first, &text);
    assert_eq!(missed(&one, &place).map(|missed| missed.len()), Some(1));
    let place = id(&other.priming_event(second));
    other.append_event(second, &text);
    assert_eq!(missed(&other, &place), None, "there was no room");
    one.end_stream(first);
    one.lock().remove_stream(first);
    let place = id(&other.append_event(second, "small"));
    other.append_event(second, &text);
    assert_eq!(missed(&other, &place).map(|missed| missed.len()), Some(1), "there is again");
}

#[test]
fn streams_that_are_over_are_kept_in_number_and_end_their_connection() {
    let streams = streams();
    let (events, mut receiver) = mpsc::channel(1);
    let first = streams.begin_stream(events);
    let place = id(&streams.priming_event(first));
    streams.append_event(first, "result");
    streams.end_stream(first);
    assert!(streams.find_connection(first).is_none());
    assert!(matches!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
    assert_eq!(missed(&streams, &place).map(|missed| missed.len()), Some(1));
    for _ in 0..MAX_ENDED_STREAMS {
        streams.end_stream(begun(&streams));
    }
    assert_eq!(missed(&streams, &place), None);
    assert_eq!(streams.lock().bytes, 0);
}
