//! A model on a server: what it is sent, how its answers are read, and what happens when it is away.
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod fake_server;

use std::borrow::Cow;
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use fake_server::{Does, FakeServer, reply, says};
use plaudit_nn::qwen3_vl::FrameSampling;
use plaudit_reward::endpoint::{
    ChatEndpoint, EndpointCallbacks, EndpointError, EndpointSettings, LabelReadout, OnFailure,
};
use plaudit_reward::trend::{
    Answer, AnswerMode, AnswerPlace, ContentPart, Conversation, GenerationConfig, LabelLogits, RgbImage,
    TrendModel, Video,
};
use serde_json::{Map, Value, json};

const WORDS: AnswerMode = AnswerMode::Text(GenerationConfig { max_new_tokens: 16, temperature: 0.0 });
const LABELS: AnswerMode = AnswerMode::Labels(GenerationConfig { max_new_tokens: 16, temperature: 0.0 });

fn settings(api_base: &str) -> EndpointSettings {
    EndpointSettings {
        api_base: api_base.into(),
        model: Some("judge".into()),
        api_key: None,
        sampling_params: Map::new(),
        timeout: Duration::from_secs(20),
        give_up: Duration::from_secs(20),
        concurrency: NonZeroUsize::new(4).unwrap(),
        on_failure: OnFailure::Stop,
    }
}

fn open(server: &FakeServer) -> ChatEndpoint {
    ChatEndpoint::open(settings(&server.address), EndpointCallbacks::none()).unwrap()
}

/// Two cameras of two frames, 1 x 2 pixels, each pixel another.
fn question(number: u8) -> Conversation<'static> {
    let image = |at: u8| RgbImage {
        height: 1,
        width: 2,
        pixels: Cow::Owned((0..6).map(|pixel| pixel + 10 * at + number).collect()),
    };
    let video = |first: u8| {
        ContentPart::Video(Video {
            frames: vec![image(first), image(first + 1)],
            fps: 24.0,
            sampling: FrameSampling::Sampled,
        })
    };
    Conversation {
        system: None,
        parts: vec![video(0), video(2), ContentPart::Text(format!("question {number}"))],
        answer: AnswerPlace::NextTurn,
    }
}

fn failure(endpoint: &ChatEndpoint, ask: &AnswerMode) -> EndpointError {
    let error = endpoint.answer(&[question(0)], ask).unwrap_err();
    let plaudit_reward::RewardModelError::Backend(error) = error else { panic!("{error}") };
    error.downcast_ref::<EndpointError>().unwrap().clone()
}

fn pixels(content: &Value) -> Vec<u8> {
    let url = content["image_url"]["url"].as_str().unwrap();
    let png = url.strip_prefix("data:image/png;base64,").unwrap();
    let png = base64::engine::general_purpose::STANDARD.decode(png).unwrap();
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    pixels
}

/// What a server does with a request, by its number and its body.
type Script = Box<dyn Fn(usize, &Value) -> Does + Send + Sync>;

#[test]
fn a_window_is_all_frames_of_one_camera_then_of_the_next_then_the_words() {
    let server = FakeServer::start(|_, _| says("positive"));
    let mut settings = settings(&format!("{}/v1/", server.address));
    settings.api_key = Some("secret".into());
    settings.sampling_params =
        [("top_p".to_string(), json!(0.5)), ("max_tokens".to_string(), json!(3))].into_iter().collect();
    let endpoint = ChatEndpoint::open(settings, EndpointCallbacks::none()).unwrap();
    let asked = Conversation { system: Some("be brief".into()), ..question(1) };
    assert_eq!(endpoint.answer(&[asked], &WORDS).unwrap(), [Answer::Text("positive".into())]);

    let sent = server.questions().remove(0);
    assert!(sent.headers.contains(&"authorization: bearer secret".into()), "{:?}", sent.headers);
    let body = sent.body;
    assert_eq!((&body["model"], &body["temperature"]), (&json!("judge"), &json!(0.0)));
    assert_eq!((&body["top_p"], &body["max_tokens"]), (&json!(0.5), &json!(3)), "the user's word counts");
    assert_eq!(body["logprobs"], Value::Null, "not asked for");
    assert_eq!(body["messages"][0], json!({"role": "system", "content": "be brief"}));
    let content = body["messages"][1]["content"].as_array().unwrap();
    let first: Vec<u8> = content[..4].iter().map(|part| pixels(part)[0]).collect();
    assert_eq!(first, [1, 11, 21, 31]);
    assert_eq!(content[4..], [json!({"type": "text", "text": "question 1"})]);
}

#[test]
fn many_windows_are_asked_side_by_side_and_answered_in_order() {
    let server = FakeServer::start(|_, body| {
        std::thread::sleep(Duration::from_millis(30));
        says(body["messages"][0]["content"][4]["text"].as_str().unwrap())
    });
    let endpoint = open(&server);
    let questions: Vec<_> = (0..20).map(question).collect();
    let answers = endpoint.answer(&questions, &WORDS).unwrap();
    let expected: Vec<_> = (0..20).map(|number| Answer::Text(format!("question {number}"))).collect();
    assert_eq!(answers, expected);
    assert!((2..=4).contains(&server.busiest()), "{} at once", server.busiest());
}

/// Log-probabilities of an answer that says `positive`.
fn logprobs() -> Value {
    let top = |token: &str, p: f64| json!({"token": token, "logprob": p.ln()});
    let tops = [top("positive", 0.6), top("negative", 0.3), top("unc", 0.1)];
    json!({"content": [{"token": "positive", "top_logprobs": tops}]})
}

#[test]
fn labels_are_read_from_logprobs_where_the_server_tells_them_and_a_change_is_never_read_as_words() {
    // The probe, an answer, one that has lost its logprobs for a moment, and then for good.
    let server = FakeServer::start(|number, _| {
        let has_logprobs = matches!(number, 0 | 1 | 3);
        Does::Reply(200, "", reply("positive", if has_logprobs { logprobs() } else { Value::Null }))
    });
    let endpoint = open(&server);
    assert_eq!(endpoint.label_readout().unwrap(), LabelReadout::Logprobs);
    for _ in 0..2 {
        let Answer::Logits(LabelLogits(logits)) = endpoint.answer(&[question(0)], &LABELS).unwrap().remove(0)
        else {
            panic!("logits")
        };
        for (logit, share) in logits.into_iter().zip([0.6f32, 0.3, 0.1]) {
            assert!((logit.exp() - share).abs() < 1e-6);
        }
    }
    let body = &server.questions()[1].body;
    assert_eq!((&body["logprobs"], &body["top_logprobs"]), (&json!(true), &json!(20)));
    let error = failure(&endpoint, &LABELS).to_string();
    assert!(error.contains("no logprobs, which the server gave at the beginning"), "{error}");
    assert_eq!(server.questions().len(), 4 + 3, "tried again, and then not swapped for words");
}

#[test]
fn one_refusal_does_not_change_how_answers_are_read() {
    let server = FakeServer::start(|number, _| match number {
        2 => Does::Reply(400, "", json!({"error": {"message": "image too small"}}).to_string()),
        _ => Does::Reply(200, "", reply("positive", logprobs())),
    });
    let endpoint = open(&server);
    assert!(matches!(endpoint.answer(&[question(0)], &LABELS).unwrap()[0], Answer::Logits(_)));
    let error = failure(&endpoint, &LABELS).to_string();
    assert!(error.contains("status 400: image too small"), "{error}");
    assert!(matches!(endpoint.answer(&[question(0)], &LABELS).unwrap()[0], Answer::Logits(_)));
}

#[test]
fn a_server_without_logprobs_is_read_by_its_words_from_the_first_answer_on_and_a_notice_says_so() {
    let refuses = |body: &Value| match body["logprobs"].is_null() {
        true => says("negative"),
        false => Does::Reply(400, "", json!({"error": {"message": "no logprobs here"}}).to_string()),
    };
    let scripts: [(Script, &str, usize); 2] = [
        (Box::new(move |_, body: &Value| refuses(body)), "no logprobs here", 2),
        (Box::new(|_, _: &Value| says("negative")), "answers without them", 2),
    ];
    for (script, why, probes) in scripts {
        let server = FakeServer::start(script);
        let notices: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = notices.clone();
        let callbacks = EndpointCallbacks {
            notify: Arc::new(move |text| sink.lock().unwrap().push(text.into())),
            ..EndpointCallbacks::none()
        };
        let endpoint = ChatEndpoint::open(settings(&server.address), callbacks).unwrap();
        assert_eq!(endpoint.label_readout().unwrap(), LabelReadout::Words);
        for _ in 0..2 {
            let answers = endpoint.answer(&[question(0)], &LABELS).unwrap();
            assert_eq!(answers, [Answer::Text("negative".into())]);
        }
        let asked = server.questions();
        assert_eq!(asked.len(), probes + 2, "it is probed once");
        assert!(asked[probes..].iter().all(|asked| asked.body["logprobs"].is_null()));
        let notices = notices.lock().unwrap();
        assert!(notices.len() == 1 && notices[0].contains(why), "{notices:?}");
        assert!(notices[0].contains("in the whole run"), "{notices:?}");
    }
}

#[test]
fn a_server_that_refuses_every_question_is_refused_at_the_start() {
    let server = FakeServer::start(|_, _| Does::Reply(400, "", json!({"message": "no images"}).to_string()));
    let error = open(&server).label_readout().unwrap_err().to_string();
    assert!(error.contains("status 400: no images"), "{error}");
}

#[test]
fn a_server_that_stumbles_is_asked_again() {
    let server = FakeServer::start(|number, _| match number {
        0 => Does::Reply(503, "Retry-After: 0\r\n", "busy".into()),
        1 => Does::HangUp,
        2 => Does::Reply(200, "", "<html>not a reply</html>".into()),
        3 => Does::Reply(429, "Retry-After: 0\r\n", "{}".into()),
        _ => says("unclear"),
    });
    let answers = open(&server).answer(&[question(0)], &WORDS).unwrap();
    assert_eq!(answers, [Answer::Text("unclear".into())]);
    assert_eq!(server.questions().len(), 5);
}

#[test]
fn a_server_that_dies_and_comes_back_costs_time_and_nothing_else() {
    let dead = Arc::new(AtomicBool::new(false));
    let (is_dead, notices) = (dead.clone(), Arc::<Mutex<Vec<String>>>::default());
    let script = move |_: usize, _: &Value| match is_dead.load(Ordering::SeqCst) {
        true => Does::HangUp,
        false => says("positive"),
    };
    let server = FakeServer::start(script);
    let sink = notices.clone();
    let callbacks = EndpointCallbacks {
        notify: Arc::new(move |text| sink.lock().unwrap().push(text.into())),
        ..EndpointCallbacks::none()
    };
    let endpoint = ChatEndpoint::open(settings(&server.address), callbacks).unwrap();
    let address = server.address.trim_start_matches("http://").to_string();
    dead.store(true, Ordering::SeqCst);
    drop(server); // connections are refused from here on
    let again = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(600));
        FakeServer::on(&address, |_, _| says("negative"))
    });
    let questions: Vec<_> = (0..6).map(question).collect();
    let answers = endpoint.answer(&questions, &WORDS).unwrap();
    assert_eq!(answers, vec![Answer::Text("negative".into()); 6]);
    drop(again.join().unwrap());
    let notices = notices.lock().unwrap();
    assert!(
        notices[0].contains("does not answer") && notices[0].contains("trying again for up to 20 s"),
        "{notices:?}"
    );
    assert!(notices[1].contains("answers again"), "{notices:?}");
    assert_eq!(notices.len(), 2, "once for all windows: {notices:?}");
}

#[test]
fn a_server_that_stays_down_stops_the_run_or_leaves_windows_unrewarded() {
    let server = FakeServer::start(|_, _| Does::Reply(500, "", "{\"detail\": \"out of memory\"}".into()));
    let give_up = Duration::from_millis(300);
    let stops = EndpointSettings { give_up, ..settings(&server.address) };
    let endpoint = ChatEndpoint::open(stops.clone(), EndpointCallbacks::none()).unwrap();
    let error = failure(&endpoint, &WORDS).to_string();
    assert!(error.contains("gave no answer in") && error.contains("status 500: out of memory"), "{error}");
    let skips = EndpointSettings { on_failure: OnFailure::Skip, ..stops };
    let endpoint = ChatEndpoint::open(skips, EndpointCallbacks::none()).unwrap();
    assert_eq!(endpoint.answer(&[question(0)], &WORDS).unwrap(), [Answer::Missing]);
}

#[test]
fn nonsense_and_refusals_are_not_waited_out() {
    for (status, body, expected) in [
        (200, "[]", "no choices"),
        (200, "", "no JSON"),
        (404, "{\"error\": {\"message\": \"no such model\"}}", "status 404: no such model"),
        (413, "", "status 413"),
    ] {
        let server = FakeServer::start(move |_, _| Does::Reply(status, "", body.into()));
        let began = Instant::now();
        let error = failure(&open(&server), &WORDS).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn one_empty_answer_is_an_answer_and_nothing_but_empty_ones_are_an_error() {
    let server = FakeServer::start(|number, _| says(if number == 0 { "positive" } else { " " }));
    let endpoint = open(&server);
    let one_by_one = |count: u8| (0..count).map(question).collect::<Vec<_>>();
    assert_eq!(endpoint.answer(&one_by_one(3), &WORDS).unwrap().len(), 3);
    let error = failure(&endpoint, &WORDS);
    assert!(error.to_string().contains("all of them empty"), "{error}");
}

#[test]
fn ctrl_c_ends_the_wait() {
    let server = FakeServer::start(|_, _| Does::HangUp);
    let callbacks = EndpointCallbacks { stop: Arc::new(|| true), ..EndpointCallbacks::none() };
    let endpoint = ChatEndpoint::open(settings(&server.address), callbacks).unwrap();
    assert!(matches!(failure(&endpoint, &WORDS), EndpointError::Stopped { .. }));
}

#[test]
fn what_is_wrong_shows_before_the_first_question() {
    let refused = |settings: EndpointSettings| match ChatEndpoint::open(settings, EndpointCallbacks::none()) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    let server = FakeServer::start(|_, _| says("positive"));
    let other = EndpointSettings { model: Some("Qwen".into()), ..settings(&server.address) };
    let error = refused(other);
    assert!(error.contains("no model `Qwen`, but judge"), "{error}");
    let address = server.address.clone();
    drop(server);
    let error = refused(settings(&address));
    assert!(error.contains(&format!("no reward server answers at {address}")), "{error}");
    for address in ["localhost:8000", "ftp://host", "http://", ""] {
        let error = refused(settings(address));
        assert!(error.contains("is not a server address"), "{address}: {error}");
    }
}
