export default { test: { include: ["suite.test.mjs"] } }
