use super::*;

fn buffers() -> ReplayBuffers {
    ReplayBuffers::new(replay_budget(64 << 20)).expect("randomness")
}

fn begin_stream(buffers: &ReplayBuffers) -> u64 {
    buffers.begin_stream(mpsc::channel(1).0)
}

fn event_id(event: &Bytes) -> String {
    let text = str::from_utf8(event).expect("text");
    text.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned()
}

fn missed(buffers: &ReplayBuffers, id: &str) -> Option<Vec<Bytes>> {
    buffers.find_missed_events(buffers.parse_event_id(id)?)
}

#[test]
fn missed_events_are_those_of_the_stream_after_the_given_one() {
    let buffers = buffers();
    let (one, other) = (begin_stream(&buffers), begin_stream(&buffers));
    let first = buffers.priming_event(one);
    let events = ["a", "b", "c"].map(|text| buffers.append_event(one, text));
    let foreign = buffers.append_event(other, "x");
    let ids: std::collections::HashSet<String> = events.iter().chain([&first, &foreign]).map(event_id).collect();
    assert_eq!(ids.len(), 5, "no id twice in a session");
    assert_eq!(missed(&buffers, &event_id(&first)).expect("known"), events);
    assert_eq!(missed(&buffers, &event_id(&events[1])).expect("known"), events[2..]);
    assert_eq!(missed(&buffers, &event_id(&events[2])).expect("known"), Vec::<Bytes>::new());
    assert_eq!(missed(&buffers, &event_id(&foreign)).expect("known"), Vec::<Bytes>::new());
}

#[test]
fn ids_of_other_sessions_and_unknown_ids_are_rejected() {
    let (own, other) = (buffers(), buffers());
    let (mine, theirs) = (begin_stream(&own), begin_stream(&other));
    own.append_event(mine, "mine");
    let foreign = other.append_event(theirs, "theirs");
    assert_eq!(missed(&own, &event_id(&foreign)), None);
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
fn buffers_are_limited_and_a_gap_is_reported() {
    let buffers = buffers();
    let stream = begin_stream(&buffers);
    let events: Vec<Bytes> = (0..MAX_REPLAY_EVENTS + 2).map(|_| buffers.append_event(stream, "x")).collect();
    assert_eq!(missed(&buffers, &event_id(&events[0])), None, "the next event is evicted");
    assert_eq!(missed(&buffers, &event_id(&events[1])).map(|missed| missed.len()), Some(MAX_REPLAY_EVENTS));
    let large = "x".repeat(MAX_SESSION_REPLAY_BYTES / 2);
    let events = [1, 2, 3, 4].map(|_| buffers.append_event(stream, &large));
    assert_eq!(missed(&buffers, &event_id(&events[0])), None);
    assert_eq!(missed(&buffers, &event_id(&events[1])).map(|missed| missed.len()), Some(2));
    let huge = buffers.append_event(stream, &"x".repeat(MAX_SESSION_REPLAY_BYTES * 2));
    assert_eq!(missed(&buffers, &event_id(&events[3])), Some(vec![huge]), "the latest is kept, however large");
    buffers.append_event(stream, "small");
    assert_eq!(missed(&buffers, &event_id(&events[3])), None, "it is evicted once a newer event exists");
}

#[test]
fn all_sessions_share_one_budget() {
    let budget = replay_budget(8 << 10);
    let [one, other] = [1, 2].map(|_| ReplayBuffers::new(Arc::clone(&budget)).expect("randomness"));
    let (first, second) = (begin_stream(&one), begin_stream(&other));
    let text = "x".repeat(6 << 10);
    let position = event_id(&one.priming_event(first));
    one.append_event(first, &text);
    assert_eq!(missed(&one, &position).map(|missed| missed.len()), Some(1));
    let position = event_id(&other.priming_event(second));
    other.append_event(second, &text);
    assert_eq!(missed(&other, &position), None, "the budget is used up");
    one.end_stream(first);
    one.lock().remove_stream(first);
    let position = event_id(&other.append_event(second, "small"));
    other.append_event(second, &text);
    assert_eq!(missed(&other, &position).map(|missed| missed.len()), Some(1), "the budget is free again");
}

#[test]
fn ended_streams_are_limited_and_close_their_connection() {
    let buffers = buffers();
    let (events, mut receiver) = mpsc::channel(1);
    let first = buffers.begin_stream(events);
    let position = event_id(&buffers.priming_event(first));
    buffers.append_event(first, "result");
    buffers.end_stream(first);
    assert!(buffers.find_connection(first).is_none());
    assert!(matches!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
    assert_eq!(missed(&buffers, &position).map(|missed| missed.len()), Some(1));
    for _ in 0..MAX_ENDED_STREAMS {
        buffers.end_stream(begin_stream(&buffers));
    }
    assert_eq!(missed(&buffers, &position), None);
    assert_eq!(buffers.lock().bytes, 0);
}
