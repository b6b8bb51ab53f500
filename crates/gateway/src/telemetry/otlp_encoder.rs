//! Encodes spans as OTLP's `ExportTraceServiceRequest` in protobuf. Numbers in the code are protobuf field numbers.

use gatelodge_mcp::TraceParent;

use super::span::{AttributeValue, Span, SpanKind};

/// Writes protobuf without a schema.
#[derive(Default)]
struct ProtobufWriter(Vec<u8>);

impl ProtobufWriter {
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(0x80 | (number & 0x7f) as u8);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn tag(&mut self, field: u8, wire: u8) {
        self.varint(u64::from(field) << 3 | u64::from(wire));
    }

    fn varint_field(&mut self, field: u8, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    fn fixed64(&mut self, field: u8, number: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u8, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u8, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attribute(&mut self, field: u8, name: &str, value: &AttributeValue) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.message(2, |any| match value {
                AttributeValue::Text(text) => any.bytes(1, text.as_bytes()),
                AttributeValue::Number(number) => any.varint_field(3, *number),
            });
        });
    }

    fn span_ids(&mut self, of: &TraceParent) {
        self.bytes(1, &of.trace.to_be_bytes());
        self.bytes(2, &of.span.to_be_bytes());
    }

    fn span(&mut self, span: &Span) {
        self.span_ids(&span.context);
        if let Some(parent) = &span.parent {
            self.bytes(4, &parent.span.to_be_bytes());
        }
        self.bytes(5, span.name.as_bytes());
        self.varint_field(6, if span.kind == SpanKind::Server { 2 } else { 3 });
        self.fixed64(7, span.start);
        self.fixed64(8, span.end);
        for (name, value) in &span.attributes {
            self.attribute(9, name, value);
        }
        if let Some(link) = &span.link {
            self.message(13, |inner| inner.span_ids(link));
        }
        if span.is_error {
            self.message(15, |status| status.varint_field(3, 2));
        }
    }
}

/// Encodes spans together with their resource attributes.
pub fn encode(resource: &[(String, String)], spans: &[Box<Span>]) -> Vec<u8> {
    let mut request = ProtobufWriter::default();
    request.message(1, |all| {
        all.message(1, |own| {
            for (name, value) in resource {
                own.attribute(1, name, &AttributeValue::Text(value.clone()));
            }
        });
        all.message(2, |scoped| {
            scoped.message(1, |scope| {
                scope.bytes(1, env!("CARGO_PKG_NAME").as_bytes());
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            for span in spans {
                scoped.message(2, |inner| inner.span(span));
            }
        });
    });
    request.0
}
