module.exports = (prompt) => prompt;
