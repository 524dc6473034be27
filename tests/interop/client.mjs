// Drives the real npm client: `node client.mjs VERB URL [...]` prints one JSON object.
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const JSON_TYPE = "application/json"

const verbs = {
  // Append COUNT messages through a pipelining producer, then close with one more.
  async produce(url, id, count) {
    const handle = await DurableStream.create({ url, contentType: JSON_TYPE, warnOnHttp: false })
    const errors = []
    const producer = new IdempotentProducer(handle, id, {
      maxInFlight: 5,
      maxBatchBytes: 200,
      lingerMs: 1,
      onError: (error) => errors.push(String(error)),
    })
    for (let n = 0; n < Number(count); n++) producer.append(JSON.stringify({ id, n }))
    await producer.flush()
    const { finalOffset } = await producer.close(JSON.stringify({ id, last: true }))
    return { errors, finalOffset, nextSeq: producer.nextSeq }
  },

  // Take the producer over from whoever had it, and append one message.
  async claim(url, id) {
    const handle = await DurableStream.connect({ url, warnOnHttp: false })
    const errors = []
    const producer = new IdempotentProducer(handle, id, {
      autoClaim: true,
      onError: (error) => errors.push(error.name),
    })
    producer.append(JSON.stringify({ id, claimed: true }))
    await producer.flush()
    await producer.detach()
    return { errors, epoch: producer.epoch }
  },

  // Append with an epoch that somebody has overtaken.
  async fenced(url, id) {
    const handle = await DurableStream.connect({ url, warnOnHttp: false })
    const errors = []
    const producer = new IdempotentProducer(handle, id, {
      onError: (error) => errors.push({ name: error.name, currentEpoch: error.currentEpoch }),
    })
    producer.append(JSON.stringify({ id, stale: true }))
    await producer.flush()
    await producer.detach()
    return { errors }
  },

  // Read JSON items to the end of the closed stream, live in the mode that is asked for.
  async items(url, live) {
    const mode = { false: false, true: true }[live] ?? live
    const response = await stream({ url, offset: "-1", live: mode, warnOnHttp: false })
    const items = []
    for await (const item of response.jsonStream()) items.push(item)
    return { items, offset: response.offset, streamClosed: response.streamClosed }
  },

  // Read bytes and return them as base64.
  async bytes(url, live) {
    const mode = live === "false" ? false : live
    const response = await stream({ url, offset: "-1", live: mode, warnOnHttp: false })
    const pieces = []
    for await (const piece of response.bodyStream()) pieces.push(Buffer.from(piece))
    return { base64: Buffer.concat(pieces).toString("base64"), offset: response.offset }
  },

  // The plain handle: create, append with a sequence, head, delete.
  async handle(url) {
    const options = { url, contentType: "text/plain", ttlSeconds: 60, warnOnHttp: false }
    const handle = await DurableStream.create(options)
    await handle.append("one", { seq: "a" })
    const conflict = await handle.append("no", { seq: "a" }).then(() => 0, (error) => error.status)
    await handle.append("two", { seq: "b" })
    const head = await handle.head()
    const text = await (await handle.stream({ live: false })).text()
    await handle.delete()
    const { exists } = await DurableStream.head({ url, warnOnHttp: false })
    return { conflict, contentType: head.contentType, offset: head.offset, text, exists }
  },
}

const [verb, ...rest] = process.argv.slice(2)
console.log(JSON.stringify(await verbs[verb](...rest)))
