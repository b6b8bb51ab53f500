// Writes a small PNG: rectangles on a background, and a comment.

import { deflateSync } from "node:zlib";

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** The first morph is the background; the others are painted over it in order. */
export function picture(morphs, comment) {
  const { width, height } = morphs[0].bounds;
  // Each line starts with its filter type: none.
  const line = 1 + width * 3;
  const pixels = Buffer.alloc(line * height);
  for (const { bounds, color } of morphs) {
    for (let y = Math.max(0, bounds.y); y < Math.min(height, bounds.y + bounds.height); y++) {
      for (let x = Math.max(0, bounds.x); x < Math.min(width, bounds.x + bounds.width); x++) {
        pixels.set(color, y * line + 1 + x * 3);
      }
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  // Eight bits for each of red, green and blue.
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([
    signature,
    chunk("IHDR", head),
    chunk("tEXt", Buffer.from(`Comment\0${comment}`, "latin1")),
    chunk("IDAT", deflateSync(pixels)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

function crc32(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}
