//! Reward models behind https: the machine's certificates decide whom to trust.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::runs::{command, on_one_line};
use crate::serve::{FRAME_REWARD_CONFIG, Serving, model_of, rewarded_by};

/// Takes encrypted connections for `localhost` and hands each request on to a plain server.
struct TlsFront {
    port: u16,
}

impl TlsFront {
    /// Writes the certificate that it shows to a file.
    fn start(plain: &str, certificate: &Path) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
        std::fs::write(certificate, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let (config, plain) = (Arc::new(config), plain.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, plain) = (config.clone(), plain.clone());
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    let mut client = BufReader::new(StreamOwned::new(connection, stream));
                    // A client that trusts nobody here hangs up.
                    while let Some(request) = message(&mut client) {
                        let mut server = TcpStream::connect(&plain).unwrap();
                        server.write_all(&request).unwrap();
                        let reply = message(&mut BufReader::new(server)).unwrap();
                        client.get_mut().write_all(&reply).unwrap();
                        client.get_mut().flush().unwrap();
                    }
                });
            }
        });
        Self { port }
    }
}

/// One request or reply, with its body.
fn message(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut all, mut body) = (Vec::new(), 0);
    loop {
        let begins = all.len();
        from.read_until(b'\n', &mut all).ok().filter(|bytes| *bytes > 0)?;
        let line = String::from_utf8_lossy(&all[begins..]).to_lowercase();
        if let Some(length) = line.strip_prefix("content-length:") {
            body = length.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let head = all.len();
    all.resize(head + body, 0);
    from.read_exact(&mut all[head..]).ok()?;
    Some(all)
}

#[test]
fn a_reward_model_behind_https_is_reached_if_its_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("mine.yaml"), FRAME_REWARD_CONFIG).unwrap();
    model_of(at, &["main_images"]);
    let serving = Serving::start(at, &["best_model"]);
    let certificate = at.join("lab.pem");
    let front = TlsFront::start(&serving.address, &certificate);
    let train = |host: &str, trusted: &Path| {
        let source = format!("https://{host}:{}/v1", front.port);
        let run = format!("runner.logger.log_path=run_{host}_{}", trusted.file_stem().unwrap().display());
        let words: Vec<String> = ["train", "mine.yaml", "-q", "runner.max_epochs=1", &run]
            .map(String::from)
            .into_iter()
            .chain(rewarded_by(&source))
            .collect();
        command(at, &words.iter().map(String::as_str).collect::<Vec<_>>())
            .env("SSL_CERT_FILE", trusted)
            .output()
            .unwrap()
    };
    let output = train("localhost", &certificate);
    assert!(output.status.success(), "{}", on_one_line(&output.stderr));
    // Another certificate is trusted, or this one is for another name.
    let stranger = at.join("stranger.pem");
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    std::fs::write(&stranger, other.cert.pem()).unwrap();
    for (host, trusted) in [("localhost", &stranger), ("127.0.0.1", &certificate)] {
        let output = train(host, trusted);
        let said = on_one_line(&output.stderr);
        assert!(!output.status.success() && said.contains("certificate"), "{said}");
    }
}
